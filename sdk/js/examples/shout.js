// Two handlers, and a job that uses them.
//
//   pawl dev &
//   node examples/shout.js worker &
//   node examples/shout.js submit hello world

import { Client, Permanent, Worker } from "../index.js";

const WORKFLOW = `
name: shouting
inputs: {words: {type: array, required: true}}
steps:
  - {id: shout, foreach: "\${{ inputs.words }}", handler: shout, with: {text: "\${{ item }}", times: 2}}
  - {id: join, needs: [shout], handler: join, with: "\${{ steps.shout.output }}"}
output: \${{ steps.join.output }}
`;

async function shout({ text, times = 1 }, step) {
  if (!text) throw new Permanent("there is nothing to shout", { class: "empty" });
  for (let i = 0; i < times; i++) {
    step.log(`shouting ${text}`);
    await step.sleep(100); // ends at once when the job is canceled
  }
  return text.toUpperCase() + "!".repeat(times);
}

const [what, ...words] = process.argv.slice(2);
if (what === "worker") {
  const worker = new Worker({ capacity: 4, drainTimeoutMs: 30000 });
  worker.handle("shout", shout);
  worker.handle("join", (list) => list.join(" "));
  await worker.run();
} else if (what === "submit") {
  const client = new Client();
  const job = await client.wait(await client.submit({ source: WORKFLOW, inputs: { words } }));
  console.log(job.status === "COMPLETED" ? job.output : job.error);
  client.close();
} else {
  console.error("usage: node examples/shout.js worker | submit WORD...");
  process.exitCode = 2;
}
