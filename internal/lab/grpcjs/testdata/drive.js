// Drives a load agent through a whole run, an abort and an error, and prints what it has seen as
// JSON: node drive.js ADDRESS load.proto
'use strict';
const crypto = require('crypto');
const grpc = require('@grpc/grpc-js');
const loader = require('@grpc/proto-loader');

const [address, proto] = process.argv.slice(2);
const definition = loader.loadSync(proto, { keepCase: true, longs: String, enums: String, defaults: false });
const { AgentService } = grpc.loadPackageDefinition(definition).pawl.load.v1;
const client = new AgentService(address, grpc.credentials.createInsecure());

const config = (more) => `name: node
files: [{name: data, count: 2, size: 64KiB}]
mix: [{operation: read, files: data}]
interval: 100ms
${more}
`;

// drive runs one run. step is called with each message and a function that sends.
function drive(run, yaml, step) {
  return new Promise((resolve, reject) => {
    const stream = client.ExecuteWorkload();
    const seen = [];
    let epoch = '0';
    let last = null;
    const send = (m) => stream.write({ run_id: run, session_epoch: epoch, ...m });
    stream.on('data', (m) => {
      const status = m.status.replace('STATUS_', '');
      if (seen[seen.length - 1] !== status) seen.push(status);
      if (m.hello) {
        epoch = m.hello.session_epoch;
        send({ clock_probe: { sent_ns: String(BigInt(Date.now()) * 1000000n) } });
        send({ command: 'COMMAND_START', config_yaml: yaml });
      } else if (['COMPLETED', 'ERROR', 'ABORTED'].includes(status)) {
        last = m;
        send({ command: 'COMMAND_ACKNOWLEDGE', sequence: m.sequence, result_sha256: m.result ? m.result.sha256 : undefined });
      } else {
        step(m, status, send);
      }
    });
    stream.on('error', reject);
    stream.on('end', () => resolve({ seen, last }));
    send({ hello: { protocol_min: 1, protocol_max: 1, build: 'drive.js' } });
  });
}

// fetch returns the SHA-256 of a result.
function fetch(run) {
  return new Promise((resolve, reject) => {
    const hash = crypto.createHash('sha256');
    const call = client.FetchResult({ run_id: run });
    call.on('data', (part) => hash.update(part.data));
    call.on('error', reject);
    call.on('end', () => resolve(hash.digest('hex')));
  });
}

// begin starts the load when the agent is ready, by the agent's own clock.
const begin = (m, status, send) => {
  if (status === 'READY' && m.transition.event === 'prepare_complete') {
    send({ command: 'COMMAND_START', coordinated_start_time_ns: String(BigInt(m.agent_timestamp_ns) + 300000000n) });
  }
};

const outcome = async (name, { seen, last }) => ({
  seen,
  code: last.error ? last.error.code : '',
  message: last.error_message || '',
  totals: (last.result && last.result.totals || []).map((t) => t.operation),
  same: !last.result || (await fetch(name)) === last.result.sha256.toString('hex'),
});

(async () => {
  const whole = await drive('whole', config('duration: 500ms'), begin);
  const aborted = await drive('aborted', config('duration: 10m'), (m, status, send) => {
    begin(m, status, send);
    if (m.interval) send({ command: 'COMMAND_ABORT', reason: 'enough' });
  });
  const failed = await drive('failed', config('duration: 1s\ntarget: /nowhere'), begin);
  console.log(JSON.stringify({
    whole: await outcome('whole', whole), aborted: await outcome('aborted', aborted), failed: await outcome('failed', failed),
  }));
  client.close();
})().catch((e) => { console.error(e); process.exit(1); });
