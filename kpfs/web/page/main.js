// SPDX-License-Identifier: GPL-2.0-or-later
// The stream of what is live, requests, and the switches at the top of the page.
import * as probes from "./probes.js";
import * as text from "./text.js";
import * as hit from "./hit.js";
import * as trace from "./trace.js";
import { $, ask, make } from "./base.js";

const SWITCHES = { enabled: "probes armed", optimization: "jumps", tracing: "tracing" };
for (const [name, words] of Object.entries(SWITCHES))
	$("switches").append(make("button", { "aria-pressed": "false", id: `switch-${name}`, title: name,
		onclick: (e) => ask("switch", { name, on: e.target.ariaPressed !== "true" }) }, words));
$("switches").append(
	make("button", { id: "live", "aria-pressed": "true", title: "reads the kernel's files all the time; probes see that",
		onclick: (e) => { e.target.ariaPressed = `${e.target.ariaPressed !== "true"}`; connect(); } }, "live"),
	make("button", { id: "reboot", title: "starts a fresh kernel in its place", onclick: () => ask("switch", { name: "reboot", on: true }) }, "Reboot"));

let stream = null;
// Follow the kernel: what is chosen decides what the server reads.
function connect() {
	stream?.close();
	stream = null;
	if ($("live").ariaPressed !== "true") { show({ gone: "paused" }); return; }
	const query = { function: text.chosen(), trace: trace.wanted() };
	stream = new EventSource(`live?${new URLSearchParams(query)}`);
	stream.onmessage = (e) => show(JSON.parse(e.data));
	stream.onerror = () => show({ gone: "kpfs web has ended" });
}

function show(found) {
	if (found.gone !== undefined) {
		$("alive").textContent = found.gone || "live";
		$("alive").className = `chip ${found.gone ? "bad" : "good"}`;
	}
	if (found.late) $("alive").textContent = `live, ${found.late} looks late`;
	if (found.state) {
		const state = found.state;
		$("release").textContent = state.release;
		$("reboot").hidden = !state.reboots;
		for (const name of Object.keys(SWITCHES))
			Object.assign($(`switch-${name}`), { hidden: !(name in state.switches), ariaPressed: `${state.switches[name]}` });
		probes.show(state);
		hit.showStates(state);
	}
	if (found.text !== undefined) text.show(found.text);
	if (found.trace) trace.show(found.trace);
	if (found.calls) trace.showCalls(found.calls);
}

addEventListener("chosen", connect);
connect();
