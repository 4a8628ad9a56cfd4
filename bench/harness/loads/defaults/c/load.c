/* librdkafka with its default settings, from C:
 *
 *     load produce|consume BOOTSTRAP TOPIC GROUP RECORDS RECORD_BYTES PARTITIONS
 *
 * It prints one JSON object: the seconds and the records of its rate, and how long the first record
 * took. A consumer checks that each partition's offsets are 0, 1, 2, ...
 *
 * It is linked with the librdkafka in Python's confluent-kafka, so that both clients have the same
 * version. That package has no header, so the parts of the public ABI that are used are declared
 * here. */

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { PRODUCER = 0, CONSUMER = 1 };
enum { ANY_PARTITION = -1, COPY = 2, QUEUE_FULL = -184 };

typedef struct rd_kafka rd_kafka_t;
typedef struct rd_kafka_conf rd_kafka_conf_t;
typedef struct rd_kafka_topic rd_kafka_topic_t;
typedef struct rd_kafka_list rd_kafka_list_t;

typedef struct {
    int err;
    rd_kafka_topic_t *topic;
    int32_t partition;
    void *payload;
    size_t len;
    void *key;
    size_t key_len;
    int64_t offset;
    void *opaque;
} rd_kafka_message_t;

typedef void report_t(rd_kafka_t *, const rd_kafka_message_t *, void *);

rd_kafka_conf_t *rd_kafka_conf_new(void);
int rd_kafka_conf_set(rd_kafka_conf_t *, const char *, const char *, char *, size_t);
void rd_kafka_conf_set_dr_msg_cb(rd_kafka_conf_t *, report_t *);
rd_kafka_t *rd_kafka_new(int, rd_kafka_conf_t *, char *, size_t);
void rd_kafka_destroy(rd_kafka_t *);
rd_kafka_topic_t *rd_kafka_topic_new(rd_kafka_t *, const char *, void *);
int rd_kafka_produce(rd_kafka_topic_t *, int32_t, int, void *, size_t, const void *, size_t, void *);
int rd_kafka_last_error(void);
const char *rd_kafka_err2str(int);
int rd_kafka_poll(rd_kafka_t *, int);
int rd_kafka_flush(rd_kafka_t *, int);
int rd_kafka_poll_set_consumer(rd_kafka_t *);
rd_kafka_list_t *rd_kafka_topic_partition_list_new(int);
void *rd_kafka_topic_partition_list_add(rd_kafka_list_t *, const char *, int32_t);
int rd_kafka_subscribe(rd_kafka_t *, const rd_kafka_list_t *);
rd_kafka_message_t *rd_kafka_consumer_poll(rd_kafka_t *, int);
void rd_kafka_message_destroy(rd_kafka_message_t *);
int rd_kafka_consumer_close(rd_kafka_t *);

static const int PATIENCE_MS = 60000;

static const char *topic, *group;
static long records, record_bytes, partitions;
static rd_kafka_conf_t *settings;
static double began;
static long acknowledged;

static double now(void) {
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return (double)at.tv_sec + (double)at.tv_nsec / 1e9;
}

static void check(int holds, const char *complaint, long number) {
    if (!holds) {
        fprintf(stderr, "%s: %ld\n", complaint, number);
        exit(1);
    }
}

static void set(const char *name, const char *value) {
    char reason[512];
    check(rd_kafka_conf_set(settings, name, value, reason, sizeof reason) == 0, name, 0);
}

static rd_kafka_t *client(int kind) {
    char reason[512] = "";
    rd_kafka_t *made = rd_kafka_new(kind, settings, reason, sizeof reason);
    check(made != NULL, reason, 0);
    return made;
}

static void tell(double first, double last, long timed) {
    check(timed > 0 && last > first, "too few records for a rate", timed);
    printf("{\"seconds\": %.9f, \"records\": %ld, \"first_record_s\": %.9f}\n", last - first, timed,
           first - began);
}

static void reported(rd_kafka_t *producer, const rd_kafka_message_t *message, void *opaque) {
    (void)producer, (void)opaque;
    check(message->err == 0, rd_kafka_err2str(message->err), message->err);
    acknowledged++;
}

static void send_one(rd_kafka_t *producer, rd_kafka_topic_t *place, char *value) {
    while (rd_kafka_produce(place, ANY_PARTITION, COPY, value, record_bytes, NULL, 0, NULL) != 0) {
        int error = rd_kafka_last_error();
        check(error == QUEUE_FULL, rd_kafka_err2str(error), error);
        rd_kafka_poll(producer, 1000);
    }
    rd_kafka_poll(producer, 0);
}

static void produce(void) {
    char *value = malloc(record_bytes);
    for (long index = 0; index < record_bytes; index++) value[index] = (char)('a' + index * 7 % 26);
    rd_kafka_conf_set_dr_msg_cb(settings, reported);
    rd_kafka_t *producer = client(PRODUCER);
    rd_kafka_topic_t *place = rd_kafka_topic_new(producer, topic, NULL);
    send_one(producer, place, value);
    rd_kafka_flush(producer, PATIENCE_MS);
    double first = now();
    for (long number = 1; number < records; number++) send_one(producer, place, value);
    rd_kafka_flush(producer, PATIENCE_MS);
    double last = now();
    check(acknowledged == records, "records acknowledged", acknowledged);
    tell(first, last, records - 1);
}

static void consume(void) {
    int64_t *next = calloc(partitions, sizeof *next);
    long seen = 0, bytes = 0;
    double first = 0;
    set("group.id", group);
    set("auto.offset.reset", "earliest");
    rd_kafka_t *consumer = client(CONSUMER);
    rd_kafka_poll_set_consumer(consumer);
    rd_kafka_list_t *topics = rd_kafka_topic_partition_list_new(1);
    rd_kafka_topic_partition_list_add(topics, topic, ANY_PARTITION);
    check(rd_kafka_subscribe(consumer, topics) == 0, "not subscribed", 0);
    while (seen < records) {
        rd_kafka_message_t *message = rd_kafka_consumer_poll(consumer, PATIENCE_MS);
        check(message != NULL, "nothing came for a minute after records", seen);
        check(message->err == 0, rd_kafka_err2str(message->err), message->err);
        check(message->offset == next[message->partition]++, "out of order", message->offset);
        bytes += (long)message->len;
        if (++seen == 1) first = now();
        rd_kafka_message_destroy(message);
    }
    double last = now();
    check(bytes == records * record_bytes, "bytes of values", bytes);
    rd_kafka_consumer_close(consumer);
    rd_kafka_destroy(consumer);
    tell(first, last, records - 1);
}

int main(int count, char **arguments) {
    check(count == 8, "seven arguments are needed", count);
    began = now();
    settings = rd_kafka_conf_new();
    set("bootstrap.servers", arguments[2]);
    topic = arguments[3];
    group = arguments[4];
    records = atol(arguments[5]);
    record_bytes = atol(arguments[6]);
    partitions = atol(arguments[7]);
    if (strcmp(arguments[1], "produce") == 0)
        produce();
    else
        consume();
    return 0;
}
