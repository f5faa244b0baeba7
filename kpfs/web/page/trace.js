// SPDX-License-Identifier: GPL-2.0-or-later
// The end of the trace, and the same as a timeline.
import { $, ask, follow, make } from "./base.js";

const KEPT = 2000, SHOWN = 300, PIXELS = 1000;
let records = [];
const isOn = (id) => $(id).ariaPressed === "true";

export const wanted = () => (isOn("pause") ? "" : isOn("calls") ? "calls" : "records");

export function show(found) {
	if (found.left_out) $("left-out").textContent = `${found.left_out} records are not shown`;
	if (!found.lines.length) return;
	records = [...records, ...found.lines].slice(-KEPT);
	render();
}

const matches = (comm, pid, event) => event.includes($("event").value.trim()) && `${comm}-${pid}`.includes($("task").value.trim());

function render() {
	const node = $("trace"), below = node.scrollHeight - node.scrollTop - node.clientHeight < 40;
	node.textContent = records.filter(([, , pid, comm, event]) => matches(comm, pid, event)).slice(-SHOWN).map((r) => r[5]).join("\n");
	if (below) node.scrollTop = node.scrollHeight;
}

export function showCalls(calls) {
	const shown = calls.filter(([, , pid, comm, event]) => matches(comm, pid, event));
	const begin = Math.min(...shown.map((c) => c[0])), end = Math.max(...shown.map((c) => c[0] + (c[6] ?? 0)));
	const tasks = [...new Set(shown.map((c) => `${c[3]}-${c[2]}`))].slice(-12), scale = (PIXELS - 160) / Math.max(end - begin, 1);
	const svg = make("svg", { viewBox: `0 0 ${PIXELS} ${22 * tasks.length + 4}`, role: "img", "aria-label": `${shown.length} records of ${tasks.length} tasks` },
		...tasks.map((task, i) => make("text", { x: 0, y: 22 * i + 16 }, task.slice(-20))));
	for (const [time, , pid, comm, event, text, took] of shown) {
		const row = tasks.indexOf(`${comm}-${pid}`);
		if (row < 0) continue;
		const rect = make("rect", { x: 160 + (time - begin) * scale, y: 22 * row + (took === null ? 3 : 6), height: took === null ? 18 : 12,
			width: Math.max((took ?? 0) * scale, 1.5), class: took === null ? "instant" : "call" });
		rect.append(document.createElementNS(rect.namespaceURI, "title"));
		rect.firstChild.textContent = `${event}${took === null ? "" : `, ${(took / 1000).toFixed(1)} µs`}\n${text}`;
		svg.append(rect);
	}
	$("timeline").replaceChildren(svg, make("p", { class: "dim" }, `${((end - begin) / 1e6).toFixed(2)} ms; calls whose entry and return are probed have a length`));
}

for (const id of ["event", "task"]) $(id).oninput = render;
for (const id of ["pause", "calls"])
	$(id).onclick = () => {
		$(id).ariaPressed = `${!isOn(id)}`;
		$("timeline").hidden = !isOn("calls");
		records = isOn("pause") ? records : [];
		follow();
	};
$("export").onclick = async () => {
	const found = await ask("perfetto");
	if (!found) return;
	const link = make("a", { href: URL.createObjectURL(new Blob([JSON.stringify(found)], { type: "application/json" })), download: "trace.json" });
	link.click();
	URL.revokeObjectURL(link.href);
};
