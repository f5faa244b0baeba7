// SPDX-License-Identifier: GPL-2.0-or-later
// The list of probes, and the form that adds one.
import { $, ask, make } from "./base.js";
import * as text from "./text.js";
import * as hit from "./hit.js";

const rows = new Map(), SAMPLES = 40;
const KINDS = { ftrace: "FTRACE", jump: "OPTIMIZED", breakpoint: "none" };

export function show(state) {
	const keys = new Set();
	for (const probe of state.probes) {
		const key = `${probe.type} ${probe.place} ${probe.owner}`;
		keys.add(key);
		if (!rows.has(key)) rows.set(key, new Row(probe));
		rows.get(key).show(probe, state.gdb);
	}
	for (const [key, row] of rows)
		if (!keys.has(key)) { row.node.remove(); rows.delete(key); }
	$("lost").replaceChildren(...state.lost.map((line) => make("li", {}, `lost: ${line}`)));
}

class Row {
	constructor(probe) {
		const event = probe.owner.includes("/") ? probe.owner : "";
		this.cells = Array.from({ length: 8 }, () => make("td"));
		const [on, place, , rate, , , , more] = this.cells;
		this.history = [];
		this.rate = make("span");
		this.line = make("path");
		this.box = make("input", { type: "checkbox", "aria-label": `enable ${probe.owner}`, disabled: !event,
			onchange: () => ask("enable", { event, on: this.box.checked }) });
		on.append(this.box);
		place.append(make("button", { class: "link", onclick: () => text.choose(probe.place.split(":")[0]) },
			`${probe.place}${probe.type === "r" ? " (return)" : ""}`));
		place.append(make("small", {}, ` ${probe.owner} ${probe.args ?? ""}`));
		rate.append(this.rate, make("svg", { viewBox: `0 0 ${SAMPLES} 12`, "aria-hidden": "true" }, this.line));
		this.step = make("button", { onclick: () => hit.record(probe) }, "Step");
		more.append(this.step);
		const remove = async () => { await ask("enable", { event, on: false }); ask("define", { line: `-:${event}` }); };
		if (event) more.append(make("button", { "aria-label": `remove ${probe.owner}`, onclick: remove }, "✕"));
		this.node = make("tr", {}, ...this.cells);
		$("probes").append(this.node);
	}

	show(probe, gdb) {
		this.box.checked = !["disabled", "gone"].includes(probe.kind);
		this.step.disabled = !gdb;
		this.step.title = gdb ? "record the next hit" : "start the kernel with --gdb for this";
		this.history = [...this.history, probe.rate].slice(-SAMPLES);
		const top = Math.max(...this.history, 1);
		this.line.setAttribute("d", this.history.map((v, i) => `${i ? "L" : "M"}${i} ${11 - (10 * v) / top}`).join(""));
		this.set(this.rate, probe.rate.toFixed(probe.rate < 10 ? 1 : 0));
		this.set(this.cells[2], probe.kind, `kind ${KINDS[probe.kind] ?? "refused"}`);
		this.set(this.cells[4], probe.hits);
		this.set(this.cells[5], probe.nmissed, probe.nmissed ? "refused" : "");
		this.set(this.cells[6], probe.cost === null ? "" : `≈${probe.cost.toFixed(2)} µs`);
	}

	set(node, words, kind = "") {
		if (node.textContent !== `${words}`) node.textContent = words;
		if (node.className !== kind) node.className = kind;
	}
}

let timer = 0;
($("point").oninput = () => { clearTimeout(timer); timer = setTimeout(judge, 120); })(); // it may be typed already

// Say what becomes of a probe at the point in the form.
async function judge() {
	const point = $("point").value.trim();
	if (!point) return;
	const [name] = point.split("+");
	if (point === name) {
		const names = (await ask("functions", { typed: name })) ?? [];
		$("functions").replaceChildren(...names.map((value) => make("option", { value })));
		if (!names.includes(name)) return;
	}
	const fate = await ask("explain", { point });
	if (!fate || point !== $("point").value.trim()) return;
	$("verdict").className = fate.accepted ? fate.tag : "refused";
	$("verdict").textContent = [fate.said, ...(fate.more ?? []).map((line) => line.trim())].join("\n");
	if (fate.listing.length) text.choose(point, fate.listing);
}

$("add").addEventListener("submit", async (e) => {
	e.preventDefault();
	const value = (id) => $(id).value.trim();
	const name = value("name") || `${value("kind")}_${value("point")}`.replace(/\W/g, "_");
	const line = `${value("kind")}:${name} ${value("point")} ${value("args")}`.trim();
	if (!(await ask("define", { line }))) return;
	await ask("enable", { event: name.includes("/") ? name : `kprobes/${name}`, on: true });
	text.choose(value("point"));
});
