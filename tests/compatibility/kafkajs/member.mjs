// One member of a consumer group, made with kafkajs, as a process that a test can watch and kill.
//
//   node member.mjs '{"bootstrap": "127.0.0.1:9092", "topic": "topic", "group": "group", ...}'
//
// It prints one JSON line for each thing that happens to it, with the time it happened: partitions
// assigned and revoked, records read, positions committed. With "produce": n it writes n records to
// each partition instead. SIGTERM makes it leave the group in an orderly way.

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
  console.log(JSON.stringify({ at, event, partitions: sorted, offset }));
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

async function consume() {
  const consumer = kafka.consumer({
    groupId: asked.group,
    sessionTimeout: 6_000,
    heartbeatInterval: 500,
    maxWaitTimeInMs: 200,
  });
  let owned = [];
  const revoke = () => {
    if (owned.length > 0) say("revoked", owned);
    owned = [];
  };
  consumer.on(consumer.events.REBALANCING, revoke);
  consumer.on(consumer.events.GROUP_JOIN, ({ payload }) => {
    revoke();
    owned = payload.memberAssignment[topic] ?? [];
    say("assigned", owned);
  });
  process.on("SIGTERM", async () => {
    await consumer.disconnect();
    say("left");
    process.exit(0);
  });
  await consumer.connect();
  await consumer.subscribe({ topics: [topic], fromBeginning: true });
  await consumer.run({
    autoCommit: false,
    eachBatch: async ({ batch }) => {
      for (const { offset } of batch.messages) say("read", [batch.partition], Number(offset));
      const next = (BigInt(batch.lastOffset()) + 1n).toString();
      try {
        await consumer.commitOffsets([{ topic, partition: batch.partition, offset: next }]);
        say("committed");
      } catch (error) {
        say(`not committed: ${error}`);
      }
    },
  });
}

await (asked.produce > 0 ? produce() : consume());
