// SPDX-License-Identifier: GPL-2.0-or-later
// node trace_processor.js DIR: the engine of ui.perfetto.dev, whose files are in DIR, reads
// requests (a TraceProcessorRpcStream) from standard input and writes its answers.
const fs = require("fs");
const path = require("path");
const vm = require("vm");

const folder = process.argv[2];
const read = (name) => fs.readFileSync(path.join(folder, path.basename(name)));

// what a worker of a browser has, and the engine uses
const worker = {
	WorkerGlobalScope: Object,
	location: { href: "http://localhost/" },
	XMLHttpRequest: class {
		open(_method, url) {
			this.url = url;
		}
		send() {
			this.response = new Uint8Array(read(this.url)).buffer;
		}
	},
	console: { log() {}, warn: console.error, error: console.error },
	TextDecoder, TextEncoder, URL, Uint8Array, performance, setTimeout,
};
worker.self = worker;
vm.runInNewContext(read("engine_bundle.js").toString(), worker);

const port = { postMessage: (answer) => fs.writeSync(1, answer) };
worker.onmessage({ data: port });
const requests = new Uint8Array(fs.readFileSync(0));
setTimeout(() => port.onmessage({ data: requests }), 100); // when it is ready
