// Worker threads, the thread pool, a server and its client, a child process, garbage.
import { Worker, isMainThread, parentPort, workerData } from "node:worker_threads";
import { execFileSync } from "node:child_process";
import { pbkdf2, createHash } from "node:crypto";
import { promisify } from "node:util";
import { fileURLToPath } from "node:url";
import fs from "node:fs/promises";
import http from "node:http";

const self = fileURLToPath(import.meta.url);

function sorted(seed) {
  const items = Array.from({ length: 200000 }, (_, i) => (seed = (seed * 1103515245 + 12345) % 2147483648) ^ i);
  return items.sort((a, b) => a - b).filter((_, i) => i % 10000 === 0).reduce((sum, item) => (sum * 31 + item) % 1000003, 0);
}

async function main() {
  const workers = [1, 2, 3].map((seed) => new Promise((done, failed) => {
    const worker = new Worker(self, { workerData: seed });
    worker.once("message", done).once("error", failed);
  }));
  const keys = await Promise.all([1, 2, 3, 4].map((n) => promisify(pbkdf2)("secret", `salt${n}`, 60000, 16, "sha256")));
  const server = http.createServer((request, response) => response.end(request.url.repeat(3)));
  await new Promise((done) => server.listen(0, "127.0.0.1", done));
  let answers = 0;
  for (let i = 0; i < 200; i++) {
    answers += (await (await fetch(`http://127.0.0.1:${server.address().port}/page${i}`)).text()).length;
  }
  server.close();
  const text = await fs.readFile(self, "utf8");
  console.log("workers", ...(await Promise.all(workers)), "answers", answers, "lines", text.split("\n").length);
  console.log("keys", keys.map((key) => key.toString("hex")).join(" "), createHash("sha256").update(text).digest("hex").length);
  console.log("child", execFileSync(process.execPath, ["-p", "6 * 7"], { encoding: "utf8" }).trim());
  process.exitCode = 5;
}

if (isMainThread) {
  await main();
} else {
  parentPort.postMessage(sorted(workerData) + sorted(workerData + 10));
}
