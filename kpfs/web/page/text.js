// SPDX-License-Identifier: GPL-2.0-or-later
// A function's instructions as they were built and as they stand, and what is out of line.
import { $, ask, follow, make } from "./base.js";

let name = "", built = [], last = "";
const LINE = /^ {2}([0-9a-f]+) {2}((?:[0-9a-f]{2} )+) *(.*?)(?: +# (.*))?$/;

export const chosen = () => name;

// Show a function.  listing: its instructions, if they are known already.
export async function choose(point, listing) {
	const [wanted] = point.split("+");
	if (wanted === name && (listing === undefined || built.length)) return;
	name = wanted;
	$("function").textContent = name;
	built = listing ?? (await ask("explain", { point: name }))?.listing ?? [];
	follow();
}

export function show(listing) {
	if (listing === last) return;
	last = listing;
	const [own, ...others] = listing.split("\n\n").map((part) => part.split("\n"));
	const now = new Map(own.map((line) => LINE.exec(line)).filter(Boolean).map((m) => [m[1], m]));
	const known = built.length ? built : [...now.values()].map((m) => ({ address: m[1], code: "", words: "", tag: "", why: "" }));
	let covered = 0;
	const body = known.map((insn) => {
		const at = Number.parseInt(insn.address.slice(-8), 16), m = now.get(insn.address);
		const offset = Number(BigInt(`0x${insn.address}`) - BigInt(`0x${known[0].address}`));
		if (m) covered = at + m[2].trim().split(" ").length;
		const words = m ? m[3] : at < covered ? "" : "…";
		const kind = ["FTRACE", "OPTIMIZED", "none"].includes(insn.tag) ? insn.tag : insn.tag && "refused";
		const fill = () => { $("point").value = `${name}+0x${offset.toString(16)}`; $("point").oninput(); };
		const pick = make("button", { class: `link ${kind}`, title: `${insn.tag} ${insn.why}`, onclick: fill }, `+${offset.toString(16)}`);
		const row = make("tr", { class: m?.[4] ? "patched" : words ? "" : "patched over" }, make("td", {}, pick),
			make("td", {}, make("code", { class: "dim" }, (insn.code.match(/../g) ?? []).join(" ")), make("code", {}, insn.words)),
			make("td", {}, make("code", { class: "dim" }, m?.[2] ?? ""), make("code", {}, words), make("small", {}, m?.[4]?.split(", was")[0] ?? "")));
		if (m?.[4]) row.dataset.to = (/0x([0-9a-f]+)/.exec(words) ?? [, "int3"])[1];
		row.dataset.at = insn.address;
		return row;
	});
	const head = make("tr", {}, ...["", "built", "now"].map((w) => make("th", { scope: "col" }, w)));
	const table = make("table", {}, make("thead", {}, head), make("tbody", {}, ...body));
	const cards = others.filter((part) => part[0]).map((part) => {
		const lines = part.slice(1).filter(Boolean).map((line) => LINE.exec(line)).filter(Boolean);
		const card = make("details", { open: lines.length < 12 }, make("summary", {}, part[0].replace(/:$/, "")),
			make("pre", { tabIndex: 0 }, lines.map((m) => `${m[1].slice(-4)}  ${m[3]}`).join("\n")));
		card.dataset.start = lines[0]?.[1];
		card.dataset.title = part[0].replace(/:$/, "");
		card.addEventListener("toggle", arrows);
		return card;
	});
	const lines = make("svg", { class: "arrows", "aria-hidden": "true" });
	$("text").replaceChildren(make("div", { class: "wide", tabIndex: 0, role: "region", "aria-label": "instructions" }, table),
		make("div", { class: "cards" }, ...cards), lines);
	arrows();
}

// Draw an arrow from each patch to its code out of line.
function arrows() {
	const svg = document.querySelector("svg.arrows"), box = $("text").getBoundingClientRect();
	if (!svg) return;
	svg.replaceChildren();
	for (const row of document.querySelectorAll("#text tr[data-to]")) {
		const offset = row.querySelector("button").textContent.replace("+", "+0x");
		const card = [...document.querySelectorAll("#text details")].find((each) => row.dataset.to === "int3"
			? each.dataset.title === `slot of ${name}${offset === "+0x0" ? "" : offset}` : each.dataset.start === row.dataset.to);
		if (!card) continue;
		const a = row.getBoundingClientRect(), b = card.getBoundingClientRect();
		const [x, y, u, v] = [a.right - box.left, a.top + a.height / 2 - box.top, b.left - box.left, b.top + 18 - box.top];
		if (u < x) continue; // below one another, on a narrow screen
		svg.append(make("path", { d: `M${x} ${y}C${x + 30} ${y} ${u - 30} ${v} ${u - 4} ${v}l-5 -4m5 4l-5 4` }));
	}
}
addEventListener("resize", arrows);
