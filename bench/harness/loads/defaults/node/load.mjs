// kafkajs with its default settings:
//
//   node load.mjs produce|consume BOOTSTRAP TOPIC GROUP RECORDS RECORD_BYTES PARTITIONS
//
// It prints one JSON object: the seconds and the records of its rate, and how long the first record
// took. A consumer checks that each partition's offsets are 0, 1, 2, …
//
// kafkajs has no batching of its own: what one `send` is given is one request. It is given lists of
// up to 1,000 records or a megabyte, one after the other.

import { Kafka, logLevel } from "kafkajs";

const [direction, bootstrap, topic, groupId, ...numbers] = process.argv.slice(2);
const [records, recordBytes, partitions] = numbers.map(Number);
const RECORDS_A_CALL = Math.max(1, Math.min(1_000, Math.floor(1_000_000 / recordBytes)));
const PATIENCE_MS = 60_000;
const beganMs = performance.now();
// Lines about what it does by itself are no result.
const kafka = new Kafka({ brokers: [bootstrap], logLevel: logLevel.ERROR });

function fail(complaint) {
  console.error(complaint);
  process.exit(1);
}

function tell(firstMs, lastMs, timed) {
  if (timed <= 0) fail("all records came at once: there is no rate");
  const seconds = (lastMs - firstMs) / 1000;
  console.log(
    JSON.stringify({ seconds, records: timed, first_record_s: (firstMs - beganMs) / 1000 }),
  );
}

async function produce() {
  const value = Buffer.alloc(recordBytes);
  for (let index = 0; index < recordBytes; index++) value[index] = 97 + ((index * 7) % 26);
  const producer = kafka.producer();
  await producer.connect();
  const send = (count) =>
    producer.send({ topic, messages: Array.from({ length: count }, () => ({ value })) });
  await send(1);
  const firstMs = performance.now();
  for (let sent = 1; sent < records; ) {
    const count = Math.min(RECORDS_A_CALL, records - sent);
    await send(count);
    sent += count;
  }
  const lastMs = performance.now();
  await producer.disconnect();
  tell(firstMs, lastMs, records - 1);
}

async function consume() {
  const next = new Array(partitions).fill(0);
  let seen = 0;
  let bytes = 0;
  let firstMs = 0;
  let lastMs = 0;
  let complete;
  const completed = new Promise((resolve) => (complete = resolve));
  let seenBefore = -1;
  const watch = setInterval(() => {
    if (seen === seenBefore) fail(`nothing came for a minute after ${seen} records`);
    seenBefore = seen;
  }, PATIENCE_MS);
  const consumer = kafka.consumer({ groupId });
  consumer.on(consumer.events.CRASH, ({ payload }) => fail(payload.error));
  await consumer.connect();
  await consumer.subscribe({ topics: [topic], fromBeginning: true });
  await consumer.run({
    eachMessage: async ({ partition, message }) => {
      if (Number(message.offset) !== next[partition]) {
        fail(`offset ${message.offset} of partition ${partition} came, not ${next[partition]}`);
      }
      next[partition] += 1;
      bytes += message.value.length;
      seen += 1;
      if (seen === 1) firstMs = performance.now();
      if (seen === records) {
        lastMs = performance.now();
        complete();
      }
    },
  });
  await completed;
  clearInterval(watch);
  await consumer.disconnect();
  if (seen !== records || bytes !== records * recordBytes) {
    fail(`${seen} records came, with ${bytes} bytes of values`);
  }
  tell(firstMs, lastMs, records - 1);
}

await (direction === "produce" ? produce() : consume());
