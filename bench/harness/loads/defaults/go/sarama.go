package main

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/IBM/sarama"
)

func saramaProduce(o order) {
	began := time.Now()
	config := sarama.NewConfig()
	// By default acknowledgements are not reported, and there would be nothing to count.
	config.Producer.Return.Successes = true
	producer, err := sarama.NewAsyncProducer([]string{o.bootstrap}, config)
	check(err)
	value := sarama.ByteEncoder(o.value())
	go func() {
		for failure := range producer.Errors() {
			fail("%v", failure)
		}
	}()
	producer.Input() <- &sarama.ProducerMessage{Topic: o.topic, Value: value}
	<-producer.Successes()
	first := time.Now()
	go func() {
		for number := 1; number < o.records; number++ {
			producer.Input() <- &sarama.ProducerMessage{Topic: o.topic, Value: value}
		}
	}()
	for number := 1; number < o.records; number++ {
		<-producer.Successes()
	}
	last := time.Now()
	producer.AsyncClose()
	tell(began, first, last, o.records-1)
}

// member counts the records of its claims; each partition has its own loop.
type member struct {
	counted     *tally
	read, bytes atomic.Int64
	stop        context.CancelFunc
}

func (*member) Setup(sarama.ConsumerGroupSession) error   { return nil }
func (*member) Cleanup(sarama.ConsumerGroupSession) error { return nil }

func (m *member) ConsumeClaim(
	session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim,
) error {
	next := &m.counted.next[claim.Partition()]
	for {
		select {
		case each, isOpen := <-claim.Messages():
			if !isOpen {
				return nil
			}
			if each.Offset != *next {
				fail("offset %d of partition %d came, not %d", each.Offset, each.Partition, *next)
			}
			*next++
			m.bytes.Add(int64(len(each.Value)))
			switch m.read.Add(1) {
			case 1:
				m.counted.first, m.counted.untimed = time.Now(), 1
			case int64(m.counted.order.records):
				m.counted.last = time.Now()
				m.stop()
			}
			session.MarkMessage(each, "")
		case <-session.Context().Done():
			return nil
		}
	}
}

func saramaConsume(o order) {
	config := sarama.NewConfig()
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	counted := newTally(o)
	group, err := sarama.NewConsumerGroup([]string{o.bootstrap}, o.group, config)
	check(err)
	running, stop := context.WithCancel(context.Background())
	reader := &member{counted: counted, stop: stop}
	go func() {
		for seen := int64(-1); seen != reader.read.Load(); time.Sleep(patience) {
			seen = reader.read.Load()
		}
		fail("nothing came for %v after %d records", patience, reader.read.Load())
	}()
	for running.Err() == nil {
		if err := group.Consume(running, []string{o.topic}, reader); running.Err() == nil {
			check(err)
		}
	}
	check(group.Close())
	counted.records, counted.bytes = int(reader.read.Load()), int(reader.bytes.Load())
	counted.tell()
}
