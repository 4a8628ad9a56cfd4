package main

import (
	"context"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

type franz struct{ order }

func (f franz) client(more ...kgo.Opt) (*kgo.Client, error) {
	options := []kgo.Opt{
		kgo.SeedBrokers(f.Address),
		kgo.DefaultProduceTopic(f.Topic),
		kgo.RequestRetries(1),
	}
	secure, err := f.tls()
	if err != nil {
		return nil, err
	}
	if secure != nil {
		options = append(options, kgo.DialTLSConfig(secure))
	}
	token, err := f.token()
	if err != nil {
		return nil, err
	}
	login := scram.Auth{User: f.User, Pass: f.Password}
	switch f.Mechanism {
	case "PLAIN":
		options = append(options, kgo.SASL(plain.Auth{User: f.User, Pass: f.Password}.AsMechanism()))
	case "OAUTHBEARER":
		options = append(options, kgo.SASL(oauth.Auth{Token: token}.AsMechanism()))
	case "SCRAM-SHA-256":
		options = append(options, kgo.SASL(login.AsSha256Mechanism()))
	case "SCRAM-SHA-512":
		options = append(options, kgo.SASL(login.AsSha512Mechanism()))
	}
	return kgo.NewClient(append(options, more...)...)
}

func send(ctx context.Context, client *kgo.Client, values []string) error {
	records := make([]*kgo.Record, len(values))
	for number, value := range values {
		records[number] = kgo.StringRecord(value)
	}
	return client.ProduceSync(ctx, records...).FirstErr()
}

func (f franz) produce(ctx context.Context, values []string) error {
	client, err := f.client()
	if err != nil {
		return err
	}
	defer client.Close()
	// A producer tries for ever to connect; this says why it cannot.
	if err := client.Ping(ctx); err != nil {
		return err
	}
	return send(ctx, client, values)
}

func (f franz) transact(ctx context.Context, aborted, committed []string) error {
	client, err := f.client(kgo.TransactionalID(f.TransactionalID))
	if err != nil {
		return err
	}
	defer client.Close()
	for _, step := range []struct {
		values []string
		end    kgo.TransactionEndTry
	}{{aborted, kgo.TryAbort}, {committed, kgo.TryCommit}} {
		if err := client.BeginTransaction(); err != nil {
			return err
		}
		if err := send(ctx, client, step.values); err != nil {
			return err
		}
		if err := client.EndTransaction(ctx, step.end); err != nil {
			return err
		}
	}
	return nil
}

func (f franz) consume(ctx context.Context, count int) ([]string, error) {
	client, err := f.client(
		kgo.ConsumerGroup(f.Group),
		kgo.ConsumeTopics(f.Topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
	)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	var values []string
	for len(values) < count {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return nil, err
		}
		fetches.EachRecord(func(each *kgo.Record) { values = append(values, string(each.Value)) })
	}
	return values, client.CommitUncommittedOffsets(ctx)
}
