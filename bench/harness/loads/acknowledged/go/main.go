// franz-go's producer, idempotent, at a steady rate until its standard input ends.
//
//	steady <bootstrap> <topic> <partitions> <records a second> <bytes>
//
// The values of each partition are its numbers 0, 1, 2, … and filler. One line for each answer:
// "a <partition> <number> <offset> <nanoseconds since 1970>" or "f <partition> <number> <error>".
package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

func number(text string) int {
	value, err := strconv.Atoi(text)
	if err != nil {
		panic(err)
	}
	return value
}

func value(number int64, size int) []byte {
	text := strconv.FormatInt(number, 10) + " "
	return []byte(text + strings.Repeat(".", size-len(text)))
}

func main() {
	topic := os.Args[2]
	partitions, rate, size := int64(number(os.Args[3])), int64(number(os.Args[4])), number(os.Args[5])
	var ends atomic.Bool
	go func() {
		io.Copy(io.Discard, os.Stdin)
		ends.Store(true)
	}()
	client, err := kgo.NewClient(
		kgo.SeedBrokers(strings.Split(os.Args[1], ",")...),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.RequiredAcks(kgo.AllISRAcks()),
		kgo.ProduceRequestTimeout(10*time.Second),
	)
	if err != nil {
		panic(err)
	}
	var lock sync.Mutex
	out := bufio.NewWriter(os.Stdout)
	began := time.Now()
	for sent := int64(0); !ends.Load(); sent++ {
		partition, number := int32(sent%partitions), sent/partitions
		record := &kgo.Record{Topic: topic, Partition: partition, Value: value(number, size)}
		client.Produce(context.Background(), record, func(record *kgo.Record, err error) {
			lock.Lock()
			defer lock.Unlock()
			if err != nil {
				text := strings.ReplaceAll(err.Error(), "\n", " ")
				fmt.Fprintf(out, "f %d %d %s\n", partition, number, text)
			} else {
				fmt.Fprintf(out, "a %d %d %d %d\n", partition, number, record.Offset, time.Now().UnixNano())
			}
		})
		ahead := time.Until(began.Add(time.Duration(sent * int64(time.Second) / rate)))
		if ahead > time.Millisecond {
			lock.Lock()
			out.Flush()
			lock.Unlock()
			time.Sleep(ahead)
		} else if ahead < -time.Second {
			began = began.Add(-ahead) // it was blocked: go on at the rate, and do not catch up
		}
	}
	if err := client.Flush(context.Background()); err != nil {
		panic(err)
	}
	client.Close()
	out.Flush()
}
