// kafkajs as a program that works off orders (orders.py), a line of JSON each.

import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { Kafka, Partitioners, logLevel } from "kafkajs";

// The error and its causes, as a stack trace shows them.
function shown(error) {
  const texts = [];
  for (let each = error; each; each = each.cause) texts.push(`${each.name}: ${each.message}`);
  return texts.join("\ncaused by ");
}

function client(order) {
  const settings = {
    clientId: "kafkajs",
    brokers: [order.address],
    logLevel: logLevel.NOTHING,
    retry: { retries: 0 },
  };
  if (order.ca) {
    const own = order.identity ? readFileSync(order.identity, "utf8") : undefined;
    settings.ssl = { ca: [readFileSync(order.ca, "utf8")], cert: own, key: own };
  }
  if (order.token) {
    const value = readFileSync(order.token, "utf8");
    settings.sasl = { mechanism: "oauthbearer", oauthBearerProvider: async () => ({ value }) };
  } else if (order.mechanism) {
    const mechanism = order.mechanism.toLowerCase();
    settings.sasl = { mechanism, username: order.user, password: order.password };
  }
  return new Kafka(settings);
}

const numbered = (word, count) => Array.from({ length: count }, (_, at) => ({ value: `${word} ${at}` }));

const producerOf = (order, more) =>
  client(order).producer({ createPartitioner: Partitioners.DefaultPartitioner, ...more });

async function produce(order, records) {
  const producer = producerOf(order, {});
  try {
    await producer.connect();
    await producer.send({ topic: order.topic, acks: -1, messages: numbered("plain", records) });
  } finally {
    await producer.disconnect();
  }
}

async function transact(order, records) {
  const producer = producerOf(order, {
    transactionalId: order.transactional_id,
    maxInFlightRequests: 1,
    idempotent: true,
    // What a transaction leaves behind for a moment is an error that is tried again.
    retry: { retries: 5 },
  });
  try {
    await producer.connect();
    const steps = [
      ["aborted", 1, "abort"],
      ["committed", records, "commit"],
    ];
    for (const [word, count, end] of steps) {
      const transaction = await producer.transaction();
      await transaction.send({ topic: order.topic, acks: -1, messages: numbered(word, count) });
      await transaction[end]();
    }
  } finally {
    await producer.disconnect();
  }
}

async function consume(order, count) {
  const consumer = client(order).consumer({
    groupId: order.group,
    maxWaitTimeInMs: 200,
    readUncommitted: false,
    retry: { retries: 0, restartOnFailure: async () => false },
  });
  const values = [];
  let timer;
  try {
    await consumer.connect();
    await consumer.subscribe({ topics: [order.topic], fromBeginning: true });
    await new Promise((resolve, reject) => {
      timer = setTimeout(() => reject(new Error("nothing came")), 1000 * order.patience_s);
      consumer.on(consumer.events.CRASH, ({ payload }) => reject(payload.error));
      const eachMessage = async ({ message }) => {
        values.push(message.value.toString());
        if (values.length === count) resolve();
      };
      consumer.run({ eachMessage }).catch(reject);
    });
  } finally {
    clearTimeout(timer);
    await consumer.disconnect();
  }
  return values;
}

async function work(order) {
  const isAll = order.what === "work";
  const records = Math.max(1, order.records);
  if (isAll || order.what === "produce") await produce(order, records);
  if (isAll || order.what === "transact") await transact(order, records);
  return isAll || order.what === "consume" ? consume(order, isAll ? 2 * records : 1) : [];
}

for await (const line of createInterface({ input: process.stdin })) {
  let answer;
  try {
    answer = { values: await work(JSON.parse(line)) };
  } catch (error) {
    answer = { error: shown(error) };
  }
  console.log(JSON.stringify(answer));
}
