// SPDX-License-Identifier: GPL-2.0-or-later
// What all parts of the page use.
export const $ = (id) => document.getElementById(id);

// Make an element.  of: its properties; class and those with a dash are attributes.
export function make(tag, of = {}, ...children) {
	const svg = ["svg", "path", "rect", "text"].includes(tag);
	const node = svg ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
	for (const [name, value] of Object.entries(of))
		if (svg || name === "class" || name.includes("-")) node.setAttribute(name, value);
		else node[name] = value;
	node.append(...children);
	return node;
}

// Have main.js ask the server for what is chosen now.
export function follow() {
	dispatchEvent(new Event("chosen"));
}

export function say(words = "") {
	$("said").textContent = words;
}

// Ask the server; what is refused is said, and null returned.
export async function ask(what, asked = {}) {
	try {
		const response = await fetch(what, { method: "POST", body: JSON.stringify(asked) });
		const answer = await response.json();
		say(response.ok ? "" : answer.error);
		return response.ok ? answer ?? true : null;
	} catch {
		say("kpfs web does not answer");
		return null;
	}
}
