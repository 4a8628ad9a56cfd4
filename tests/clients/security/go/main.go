// franz-go and sarama as programs that work off orders (orders.py), a line of JSON each:
//
//	security franz-go|sarama
package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"os"
	"time"
)

type order struct {
	What            string `json:"what"`
	Address         string `json:"address"`
	Protocol        string `json:"protocol"`
	Mechanism       string `json:"mechanism"`
	User            string `json:"user"`
	Password        string `json:"password"`
	Token           string `json:"token"`
	CA              string `json:"ca"`
	Identity        string `json:"identity"`
	Topic           string `json:"topic"`
	Group           string `json:"group"`
	TransactionalID string `json:"transactional_id"`
	Records         int    `json:"records"`
	PatienceS       int    `json:"patience_s"`
}

type answer struct {
	Values []string `json:"values,omitempty"`
	Error  string   `json:"error,omitempty"`
}

// client is what both libraries do.
type client interface {
	produce(ctx context.Context, values []string) error
	transact(ctx context.Context, aborted, committed []string) error
	consume(ctx context.Context, count int) ([]string, error)
}

func numbered(word string, count int) []string {
	values := make([]string, count)
	for number := range values {
		values[number] = fmt.Sprintf("%s %d", word, number)
	}
	return values
}

// token returns what is in the file with the token; nothing without one.
func (o order) token() (string, error) {
	if o.Token == "" {
		return "", nil
	}
	text, err := os.ReadFile(o.Token)
	return string(text), err
}

func (o order) tls() (*tls.Config, error) {
	if o.CA == "" {
		return nil, nil
	}
	text, err := os.ReadFile(o.CA)
	if err != nil {
		return nil, err
	}
	config := &tls.Config{RootCAs: x509.NewCertPool()}
	config.RootCAs.AppendCertsFromPEM(text)
	if o.Identity != "" {
		pair, err := tls.LoadX509KeyPair(o.Identity, o.Identity)
		if err != nil {
			return nil, err
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}

func (o order) work(with client) ([]string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(o.PatienceS)*time.Second)
	defer cancel()
	isAll, records := o.What == "work", max(1, o.Records)
	if isAll || o.What == "produce" {
		if err := with.produce(ctx, numbered("plain", records)); err != nil {
			return nil, err
		}
	}
	if isAll || o.What == "transact" {
		if err := with.transact(ctx, numbered("aborted", 1), numbered("committed", records)); err != nil {
			return nil, err
		}
	}
	if isAll {
		return with.consume(ctx, 2*records)
	}
	if o.What == "consume" {
		return with.consume(ctx, 1)
	}
	return nil, nil
}

func main() {
	makers := map[string]func(order) client{
		"franz-go": func(o order) client { return franz{o} },
		"sarama":   func(o order) client { return ibm{o} },
	}
	lines, out := bufio.NewScanner(os.Stdin), json.NewEncoder(os.Stdout)
	for lines.Scan() {
		var o order
		if err := json.Unmarshal(lines.Bytes(), &o); err != nil {
			panic(err)
		}
		values, err := o.work(makers[os.Args[1]](o))
		told := answer{Values: values}
		if err != nil {
			told = answer{Error: err.Error()}
		}
		if err := out.Encode(told); err != nil {
			panic(err)
		}
	}
}
