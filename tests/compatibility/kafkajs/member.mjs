// One member of a consumer group, made with kafkajs, as a process that a test can watch and kill.
//
//   node member.mjs '{"bootstrap": "127.0.0.1:9092", "topic": "topic", "group": "group", ...}'
//
// It prints one JSON line for each thing that happens to it, with the time it happened: partitions
// assigned and revoked, records read, positions committed. It does what it is told on its standard
// input, a line each: "seek 7" (in every partition it owns), "pause", "resume". SIGTERM makes it leave
// the group in an orderly way. With "produce": n it writes n records to each partition instead.

import { createInterface } from "node:readline";
import { Kafka, logLevel } from "kafkajs";

const asked = JSON.parse(process.argv[2]);
const { topic } = asked;
const kafka = new Kafka({
  brokers: [asked.bootstrap],
  clientId: "kafkajs",
  logLevel: logLevel.NOTHING,
});

function say(event, partitions = [], offset = -1) {
  const sorted = [...partitions].sort((a, b) => a - b);
  const at = Date.now() * 1_000_000;
  const names = sorted.map((partition) => `${topic}-${partition}`);
  console.log(JSON.stringify({ at, event, partitions: names, offset }));
}

async function produce() {
  const producer = kafka.producer();
  await producer.connect();
  const messages = [];
  for (let number = 0; number < asked.produce; number++) {
    for (let partition = 0; partition < asked.partitions; partition++) {
      messages.push({ partition, value: `${number}` });
    }
  }
  await producer.send({ topic, messages, acks: -1 });
  await producer.disconnect();
}

async function consumeBatch(consumer, batch, resolveOffset) {
  for (const { offset } of batch.messages) say("read", [batch.partition], Number(offset));
  resolveOffset(batch.lastOffset());
  const next = (BigInt(batch.lastOffset()) + 1n).toString();
  try {
    await consumer.commitOffsets([{ topic, partition: batch.partition, offset: next }]);
    say("committed");
  } catch (error) {
    say(`not committed: ${error}`);
  }
}

async function consume() {
  const consumer = kafka.consumer({
    groupId: asked.group,
    sessionTimeout: asked.session_ms,
    heartbeatInterval: 500,
    maxWaitTimeInMs: 200,
  });
  let owned = [];
  const revoke = () => {
    if (owned.length > 0) say("revoked", owned);
    owned = [];
  };
  // It reads nothing more until it has joined again, be it told to or be its connection lost.
  for (const event of ["REBALANCING", "CRASH", "STOP"]) consumer.on(consumer.events[event], revoke);
  consumer.on(consumer.events.GROUP_JOIN, ({ payload }) => {
    revoke();
    owned = payload.memberAssignment[topic] ?? [];
    say("assigned", owned);
  });
  let batchDone = Promise.resolve();
  process.on("SIGTERM", async () => {
    // What it gives up is said before the group may hear of it, and after the last commit.
    consumer.pause([{ topic }]);
    await batchDone;
    revoke();
    await consumer.disconnect();
    say("left");
    process.exit(0);
  });
  await consumer.connect();
  await consumer.subscribe({ topics: [topic], fromBeginning: true });
  await consumer.run({
    autoCommit: false,
    eachBatchAutoResolve: false,
    eachBatch: async ({ batch, isStale, resolveOffset }) => {
      if (isStale()) return;
      const work = consumeBatch(consumer, batch, resolveOffset);
      batchDone = work;
      await work;
    },
  });
  const todo = {
    seek: (offset) => owned.forEach((partition) => consumer.seek({ topic, partition, offset })),
    pause: () => consumer.pause([{ topic }]),
    resume: () => consumer.resume([{ topic }]),
  };
  createInterface({ input: process.stdin }).on("line", (line) => {
    const [what, value] = line.split(" ");
    todo[what](value);
    say(what);
  });
}

await (asked.produce > 0 ? produce() : consume());
