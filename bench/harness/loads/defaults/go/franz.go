package main

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

func franzProduce(o order) {
	began := time.Now()
	client, err := kgo.NewClient(kgo.SeedBrokers(o.bootstrap))
	check(err)
	value := o.value()
	acknowledged := 0 // Promises are called one at a time.
	promise := func(_ *kgo.Record, err error) {
		check(err)
		acknowledged++
	}
	send := func() {
		client.Produce(context.Background(), &kgo.Record{Topic: o.topic, Value: value}, promise)
	}
	send()
	check(client.Flush(context.Background()))
	first := time.Now()
	for number := 1; number < o.records; number++ {
		send()
	}
	check(client.Flush(context.Background()))
	last := time.Now()
	client.Close()
	if acknowledged != o.records {
		fail("%d of %d records acknowledged", acknowledged, o.records)
	}
	tell(began, first, last, o.records-1)
}

func franzConsume(o order) {
	counted := newTally(o)
	client, err := kgo.NewClient(
		kgo.SeedBrokers(o.bootstrap),
		kgo.ConsumeTopics(o.topic),
		kgo.ConsumerGroup(o.group),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
	)
	check(err)
	for !counted.isComplete() {
		waiting, done := context.WithTimeout(context.Background(), patience)
		fetches := client.PollFetches(waiting)
		done()
		check(fetches.Err())
		fetches.EachRecord(func(each *kgo.Record) {
			counted.take(each.Partition, each.Offset, each.Value)
		})
		if !fetches.Empty() {
			counted.returned()
		}
	}
	client.Close()
	counted.tell()
}
