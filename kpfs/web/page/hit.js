// SPDX-License-Identifier: GPL-2.0-or-later
// One recorded hit: a slider over its instructions, with what happens at each.
import { $, ask, make } from "./base.js";

const SAID = {
	trap: ["trap", "The processor meets int3, one byte in place of the instruction, and raises an exception."],
	jump: ["jump", "A jump stands in place of the instructions: no exception, the processor goes to the detour buffer."],
	call: ["call", "A call stands where the compiler has left room at the function's entry: ftrace's."],
	handler: ["handler", "The registers are saved; the kernel looks up the probe and calls its handler, which writes the record."],
	step: ["step", "The copy of the probed instruction runs in its slot, with the task's own registers."],
	boost: ["boost", "A jump behind the copy leads straight back: no second exception is needed."],
	fixup: ["fix-up", "The single step is over: the kernel sets the address, as the copy ran elsewhere, and calls a post_handler."],
	detour: ["detour", "The detour buffer saves the registers, calls the handler or writes the record itself, and restores them."],
	copy: ["copy", "The instructions that the jump has overwritten run here, at the end of the detour buffer."],
	back: ["back", "A jump leads from the detour buffer to the first instruction that was not overwritten."],
	trampoline: ["trampoline", "The function's return address was replaced: it returns to the trampoline, which finds the real one."],
	done: ["go on", "The hit is over: the function, or its caller, goes on as if nothing had been there."],
};
const FLAGS = { CF: 0, PF: 2, AF: 4, ZF: 6, SF: 7, TF: 8, IF: 9, DF: 10, OF: 11 };
const AROUND = 9;
let moments = [], starts = [], long = 8, watched = "", latest = { probes: [] };

$("states").innerHTML = await (await fetch("states.svg")).text();

export function showStates(state) {
	latest = state;
	const found = state.probes.find((each) => `${each.type}${each.place}` === watched);
	const waits = found?.kind === "jump" && document.querySelector(`#text tr[data-at="${found.address}"][data-to="int3"]`);
	const kind = waits ? "queued" : found?.kind;
	for (const node of document.querySelectorAll("#states [id]")) node.classList.toggle("lit", node.id === `state-${kind}`);
	$("states").ariaLabel = `states of a probe${found ? `, now: ${kind}` : ""}`;
}

export async function record(probe) {
	watched = `${probe.type}${probe.place}`;
	showStates(latest);
	$("hit-said").replaceChildren(`waiting for the next hit of ${probe.place} … `,
		make("button", { onclick: () => ask("give_up") }, "Give up"));
	$("hit-said").scrollIntoView({ block: "nearest" });
	const found = await ask("hit", { address: probe.address, type: probe.type });
	$("hit-said").textContent = found ? `${found.place}: ${found.steps.length} instructions, by ${found.kind}. The kernel has gone on since.` : "No hit was recorded.";
	if (!found) return;
	let registers = {}, stack = [];
	long = found.long;
	moments = found.steps.map((step) => {
		registers = { ...registers, ...step.set };
		stack = step.stack ?? stack;
		return { ...step, registers, stack };
	});
	starts = moments.map((m, i) => i).filter((i) => i === 0 || moments[i].phase !== moments[i - 1].phase);
	$("phases").replaceChildren(...starts.map((i) => make("button", { class: moments[i].where, onclick: () => go(i) }, SAID[moments[i].phase][0])));
	$("slider").max = moments.length - 1;
	$("hit").hidden = false;
	go(0);
	$("slider").focus();
}

function go(i) {
	i = Math.max(0, Math.min(moments.length - 1, i));
	const m = moments[i], [title, words] = SAID[m.phase];
	$("slider").value = i;
	$("slider").ariaValueText = `${i + 1} of ${moments.length}, ${title}: ${m.words}`;
	$("now").replaceChildren(make("b", { class: `chip ${m.where}` }, title), ` ${words} `,
		make("span", { class: "dim" }, `${i + 1} of ${moments.length}; ${m.name}, in the ${m.where}`));
	const part = starts.findLastIndex((start) => start <= i);
	[...$("phases").children].forEach((node, n) => { node.ariaCurrent = n === part ? "step" : null; });
	const first = Math.max(0, i - AROUND);
	$("code").replaceChildren(...moments.slice(first, i + AROUND + 1).map((each, n) => make("span",
		{ class: `row ${each.where}${first + n === i ? " here" : ""}` }, `${first + n === i ? "▶" : " "} ${each.name.padEnd(26)} ${each.words}\n`)));
	const names = Object.keys(m.registers).filter((name) => !["pc", "sp"].includes(name) && !/^(st|f)\w*\d|^f[a-z]{3,4}$|_base$/.test(name));
	const flags = m.registers.eflags && Object.entries(FLAGS).filter(([, bit]) => (parseInt(m.registers.eflags, 16) >> bit) & 1).map(([name]) => name);
	$("registers").replaceChildren(...names.map((name) => make("span", { class: i && name in m.set ? "new" : "" },
		make("b", {}, name), ` ${m.registers[name]}${name === "eflags" ? ` ${flags.join(" ")}` : ""}`)));
	$("stack").textContent = m.stack.map((word, n) => `${n ? "  " : "▸ "}sp+${(long * n).toString(16).padEnd(3)} ${word.padStart(2 * long, "0")}`).join("\n");
}
const at = () => Number($("slider").value);
const part = (way) => go(way > 0 ? starts.find((s) => s > at()) ?? moments.length - 1 : starts.findLast((s) => s < at()) ?? 0);
$("slider").oninput = () => go(at());
$("step-back").onclick = () => go(at() - 1);
$("step-on").onclick = () => go(at() + 1);
$("phase-back").onclick = () => part(-1);
$("phase-on").onclick = () => part(1);
