// franz-go and sarama with their default settings:
//
//	load franz-go|sarama produce|consume BOOTSTRAP TOPIC GROUP RECORDS RECORD_BYTES PARTITIONS
//
// It prints one JSON object: the seconds and the records of its rate, and how long the first record
// took. A consumer checks that each partition's offsets are 0, 1, 2, …
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"time"
)

type order struct {
	bootstrap, topic, group string
	records, recordBytes    int
	partitions              int
}

type figures struct {
	Seconds     float64 `json:"seconds"`
	Records     int     `json:"records"`
	FirstRecord float64 `json:"first_record_s"`
}

const patience = 60 * time.Second

func fail(format string, arguments ...any) {
	fmt.Fprintf(os.Stderr, format+"\n", arguments...)
	os.Exit(1)
}

func check(err error) {
	if err != nil {
		fail("%v", err)
	}
}

// value returns the value of every record.
func (o order) value() []byte {
	made := make([]byte, o.recordBytes)
	for index := range made {
		made[index] = byte('a' + index*7%26)
	}
	return made
}

// tally counts what a consumer reads. The clock starts when the first call has returned records.
type tally struct {
	order              order
	next               []int64
	records, bytes     int
	began, first, last time.Time
	untimed            int
}

func newTally(o order) *tally {
	now := time.Now()
	return &tally{order: o, next: make([]int64, o.partitions), began: now, last: now}
}

func (t *tally) take(partition int32, offset int64, value []byte) {
	if offset != t.next[partition] {
		fail("offset %d of partition %d came, not %d", offset, partition, t.next[partition])
	}
	t.next[partition]++
	t.records++
	t.bytes += len(value)
}

// returned notes that a call has returned the records passed to take since the previous call.
func (t *tally) returned() {
	t.last = time.Now()
	if t.first.IsZero() {
		t.first, t.untimed = t.last, t.records
	}
}

func (t *tally) isComplete() bool { return t.records >= t.order.records }

func (t *tally) tell() {
	if t.records != t.order.records || t.bytes != t.order.records*t.order.recordBytes {
		fail("%d records came, with %d bytes of values", t.records, t.bytes)
	}
	tell(t.began, t.first, t.last, t.records-t.untimed)
}

func tell(began, first, last time.Time, records int) {
	if records <= 0 {
		fail("all records came at once: there is no rate")
	}
	text, err := json.Marshal(figures{
		last.Sub(first).Seconds(), records, first.Sub(began).Seconds(),
	})
	check(err)
	fmt.Println(string(text))
}

func number(text string) int {
	value, err := strconv.Atoi(text)
	check(err)
	return value
}

func main() {
	if len(os.Args) != 9 {
		fail("eight arguments are needed")
	}
	o := order{
		os.Args[3], os.Args[4], os.Args[5], number(os.Args[6]), number(os.Args[7]), number(os.Args[8]),
	}
	todo := map[string]func(order){
		"franz-go produce": franzProduce,
		"franz-go consume": franzConsume,
		"sarama produce":   saramaProduce,
		"sarama consume":   saramaConsume,
	}[os.Args[1]+" "+os.Args[2]]
	if todo == nil {
		fail("there is no %s %s", os.Args[1], os.Args[2])
	}
	todo(o)
}
