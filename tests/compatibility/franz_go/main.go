// One member of a consumer group, made with franz-go, as a process that a test can watch and kill.
//
//	franz_go '{"bootstrap": "127.0.0.1:9092", "topic": "topic", "group": "group", ...}'
//
// It prints one JSON line for each thing that happens to it, with the time it happened: partitions
// assigned and revoked, records read, positions committed. It does what it is told on its standard
// input, a line each: "seek 7" (in every partition it owns), "pause", "resume". SIGTERM makes it leave
// the group in an orderly way. With "produce": n it writes n records to each partition instead.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"sort"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

type options struct {
	Bootstrap  string  `json:"bootstrap"`
	Topic      string  `json:"topic"`
	Group      string  `json:"group"`
	Protocol   string  `json:"protocol"`
	Strategy   string  `json:"strategy"`
	SessionMs  int     `json:"session_ms"`
	Instance   *string `json:"instance"`
	Produce    int     `json:"produce"`
	Partitions int     `json:"partitions"`
}

type line struct {
	At         int64    `json:"at"`
	Event      string   `json:"event"`
	Partitions []string `json:"partitions"`
	Offset     int64    `json:"offset"`
}

var output sync.Mutex

func say(event string, partitions map[string][]int32, offset int64) {
	output.Lock()
	defer output.Unlock()
	names := []string{}
	for topic, numbers := range partitions {
		for _, number := range numbers {
			names = append(names, fmt.Sprintf("%s-%d", topic, number))
		}
	}
	sort.Strings(names)
	text, _ := json.Marshal(line{time.Now().UnixNano(), event, names, offset})
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
	case "sticky", "uniform":
		// The server's assignor "uniform" is asked for by this name.
		return kgo.StickyBalancer()
	default:
		return kgo.CooperativeStickyBalancer()
	}
}

// What a member owns, with what it is told to do about it.
type share struct {
	mutex sync.Mutex
	owned map[string]map[int32]bool
}

func (s *share) moved(event string) func(context.Context, *kgo.Client, map[string][]int32) {
	return func(_ context.Context, _ *kgo.Client, topics map[string][]int32) {
		s.mutex.Lock()
		for topic, numbers := range topics {
			if s.owned[topic] == nil {
				s.owned[topic] = map[int32]bool{}
			}
			for _, number := range numbers {
				s.owned[topic][number] = event == "assigned"
			}
		}
		s.mutex.Unlock()
		say(event, topics, -1)
	}
}

func (s *share) partitions() map[string][]int32 {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	all := map[string][]int32{}
	for topic, numbers := range s.owned {
		for number, isOwned := range numbers {
			if isOwned {
				all[topic] = append(all[topic], number)
			}
		}
	}
	return all
}

func (s *share) obey(client *kgo.Client, words []string) {
	switch words[0] {
	case "seek":
		offset, err := strconv.ParseInt(words[1], 10, 64)
		if err != nil {
			fail(err)
		}
		places := map[string]map[int32]kgo.EpochOffset{}
		for topic, numbers := range s.partitions() {
			places[topic] = map[int32]kgo.EpochOffset{}
			for _, number := range numbers {
				places[topic][number] = kgo.EpochOffset{Epoch: -1, Offset: offset}
			}
		}
		client.SetOffsets(places)
	case "pause":
		client.PauseFetchPartitions(s.partitions())
	case "resume":
		client.ResumeFetchPartitions(s.partitions())
	default:
		fail(fmt.Errorf("%v", words))
	}
	say(words[0], nil, -1)
}

func listen(told chan<- []string) {
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		told <- strings.Fields(lines.Text())
	}
}

func subscription(asked options) []kgo.Opt {
	if strings.HasPrefix(asked.Topic, "^") {
		return []kgo.Opt{kgo.ConsumeTopics(asked.Topic), kgo.ConsumeRegex()}
	}
	return []kgo.Opt{kgo.ConsumeTopics(asked.Topic)}
}

func consume(asked options) {
	stopped, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer cancel()
	own := share{owned: map[string]map[int32]bool{}}
	settings := []kgo.Opt{
		kgo.SeedBrokers(asked.Bootstrap),
		kgo.ConsumerGroup(asked.Group),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.Balancers(balancer(asked.Strategy)),
		kgo.SessionTimeout(time.Duration(asked.SessionMs) * time.Millisecond),
		kgo.HeartbeatInterval(500 * time.Millisecond),
		kgo.DisableAutoCommit(),
		kgo.BlockRebalanceOnPoll(),
		kgo.OnPartitionsAssigned(own.moved("assigned")),
		kgo.OnPartitionsRevoked(own.moved("revoked")),
		kgo.OnPartitionsLost(own.moved("revoked")),
	}
	settings = append(settings, subscription(asked)...)
	if asked.Protocol == "consumer" {
		settings = append(settings, kgo.ServerSideBalancer())
	}
	if asked.Instance != nil {
		settings = append(settings, kgo.InstanceID(*asked.Instance))
	}
	client, err := kgo.NewClient(settings...)
	if err != nil {
		fail(err)
	}
	told := make(chan []string, 10)
	go listen(told)
	committed := true
	for stopped.Err() == nil || !committed {
		polling, done := context.WithTimeout(stopped, 200*time.Millisecond)
		fetches := client.PollRecords(polling, 100)
		done()
		read := fetches.Records()
		for _, record := range read {
			say("read", map[string][]int32{record.Topic: {record.Partition}}, record.Offset)
		}
		if len(read) > 0 || !committed {
			err := client.CommitUncommittedOffsets(context.Background())
			committed = err == nil
			if committed {
				say("committed", nil, -1)
			} else {
				say("not committed: "+err.Error(), nil, -1)
			}
		}
		select {
		case words := <-told:
			own.obey(client, words)
		default:
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
