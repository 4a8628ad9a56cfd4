// One member of a consumer group, made with franz-go, as a process that a test can watch and kill.
//
//	franz_go '{"bootstrap": "127.0.0.1:9092", "topic": "topic", "group": "group", ...}'
//
// It prints one JSON line for each thing that happens to it, with the time it happened: partitions
// assigned and revoked, records read, positions committed. With "produce": n it writes n records to
// each partition instead. SIGTERM makes it leave the group in an orderly way.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"sort"
	"sync"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

type options struct {
	Bootstrap  string  `json:"bootstrap"`
	Topic      string  `json:"topic"`
	Group      string  `json:"group"`
	Strategy   string  `json:"strategy"`
	Instance   *string `json:"instance"`
	Produce    int     `json:"produce"`
	Partitions int     `json:"partitions"`
}

type line struct {
	At         int64   `json:"at"`
	Event      string  `json:"event"`
	Partitions []int32 `json:"partitions"`
	Offset     int64   `json:"offset"`
}

var output sync.Mutex

func say(event string, partitions []int32, offset int64) {
	output.Lock()
	defer output.Unlock()
	if partitions == nil {
		partitions = []int32{}
	}
	sort.Slice(partitions, func(a, b int) bool { return partitions[a] < partitions[b] })
	text, _ := json.Marshal(line{time.Now().UnixNano(), event, partitions, offset})
	fmt.Println(string(text))
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

func produce(asked options) {
	client, err := kgo.NewClient(
		kgo.SeedBrokers(asked.Bootstrap), kgo.RecordPartitioner(kgo.ManualPartitioner()),
	)
	if err != nil {
		fail(err)
	}
	defer client.Close()
	var records []*kgo.Record
	for number := 0; number < asked.Produce; number++ {
		for partition := 0; partition < asked.Partitions; partition++ {
			value := []byte(fmt.Sprint(number))
			records = append(records, &kgo.Record{
				Topic: asked.Topic, Partition: int32(partition), Value: value,
			})
		}
	}
	if err := client.ProduceSync(context.Background(), records...).FirstErr(); err != nil {
		fail(err)
	}
}

func balancer(strategy string) kgo.GroupBalancer {
	switch strategy {
	case "range":
		return kgo.RangeBalancer()
	case "roundrobin":
		return kgo.RoundRobinBalancer()
	default:
		return kgo.CooperativeStickyBalancer()
	}
}

func consume(asked options) {
	stopped, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer cancel()
	moved := func(event string) func(context.Context, *kgo.Client, map[string][]int32) {
		return func(_ context.Context, _ *kgo.Client, topics map[string][]int32) {
			say(event, topics[asked.Topic], -1)
		}
	}
	settings := []kgo.Opt{
		kgo.SeedBrokers(asked.Bootstrap),
		kgo.ConsumerGroup(asked.Group),
		kgo.ConsumeTopics(asked.Topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.Balancers(balancer(asked.Strategy)),
		kgo.SessionTimeout(6 * time.Second),
		kgo.HeartbeatInterval(500 * time.Millisecond),
		kgo.DisableAutoCommit(),
		kgo.BlockRebalanceOnPoll(),
		kgo.OnPartitionsAssigned(moved("assigned")),
		kgo.OnPartitionsRevoked(moved("revoked")),
		kgo.OnPartitionsLost(moved("revoked")),
	}
	if asked.Instance != nil {
		settings = append(settings, kgo.InstanceID(*asked.Instance))
	}
	client, err := kgo.NewClient(settings...)
	if err != nil {
		fail(err)
	}
	for stopped.Err() == nil {
		polling, done := context.WithTimeout(stopped, 200*time.Millisecond)
		fetches := client.PollRecords(polling, 100)
		done()
		read := fetches.Records()
		for _, record := range read {
			say("read", []int32{record.Partition}, record.Offset)
		}
		if len(read) > 0 {
			if err := client.CommitRecords(context.Background(), read...); err != nil {
				say("not committed: "+err.Error(), nil, -1)
			} else {
				say("committed", nil, -1)
			}
		}
		client.AllowRebalance()
	}
	client.CloseAllowingRebalance()
	say("left", nil, -1)
}

func main() {
	var asked options
	if err := json.Unmarshal([]byte(os.Args[1]), &asked); err != nil {
		fail(err)
	}
	if asked.Produce > 0 {
		produce(asked)
		return
	}
	consume(asked)
}
