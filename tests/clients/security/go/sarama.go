package main

import (
	"context"
	"time"

	"github.com/IBM/sarama"
	"github.com/xdg-go/scram"
)

type ibm struct{ order }

// exchange makes sarama speak SCRAM with the library that its own example uses.
type exchange struct {
	hash scram.HashGeneratorFcn
	*scram.ClientConversation
}

func (e *exchange) Begin(user, password, authorization string) error {
	client, err := e.hash.NewClient(user, password, authorization)
	if err == nil {
		e.ClientConversation = client.NewConversation()
	}
	return err
}

type tokens struct{ order }

func (t tokens) Token() (*sarama.AccessToken, error) {
	text, err := t.token()
	return &sarama.AccessToken{Token: text}, err
}

func (i ibm) config() (*sarama.Config, error) {
	config := sarama.NewConfig()
	config.Version = sarama.V2_8_0_0
	config.Metadata.Retry.Max = 0
	config.Producer.Return.Successes = true
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Consumer.Return.Errors = true
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	config.Consumer.Group.Rebalance.Retry.Backoff = 100 * time.Millisecond
	config.Consumer.IsolationLevel = sarama.ReadCommitted
	secure, err := i.tls()
	if err != nil {
		return nil, err
	}
	config.Net.TLS.Enable, config.Net.TLS.Config = secure != nil, secure
	login := &config.Net.SASL
	login.Enable = i.Mechanism != ""
	login.User, login.Password = i.User, i.Password
	login.Mechanism = sarama.SASLMechanism(i.Mechanism)
	login.TokenProvider = tokens{i.order}
	hash := scram.SHA256
	if i.Mechanism == "SCRAM-SHA-512" {
		hash = scram.SHA512
	}
	login.SCRAMClientGeneratorFunc = func() sarama.SCRAMClient { return &exchange{hash: hash} }
	return config, nil
}

func (i ibm) send(producer sarama.SyncProducer, values []string) error {
	for _, value := range values {
		record := &sarama.ProducerMessage{Topic: i.Topic, Value: sarama.StringEncoder(value)}
		if _, _, err := producer.SendMessage(record); err != nil {
			return err
		}
	}
	return nil
}

func (i ibm) produce(_ context.Context, values []string) error {
	config, err := i.config()
	if err != nil {
		return err
	}
	producer, err := sarama.NewSyncProducer([]string{i.Address}, config)
	if err != nil {
		return err
	}
	defer producer.Close()
	return i.send(producer, values)
}

func (i ibm) transact(_ context.Context, aborted, committed []string) error {
	config, err := i.config()
	if err != nil {
		return err
	}
	config.Net.MaxOpenRequests = 1
	config.Producer.Idempotent = true
	config.Producer.Transaction.ID = i.TransactionalID
	config.Producer.Transaction.Retry.Max = 20
	config.Producer.Transaction.Retry.Backoff = 50 * time.Millisecond
	producer, err := sarama.NewSyncProducer([]string{i.Address}, config)
	if err != nil {
		return err
	}
	defer producer.Close()
	for _, step := range []struct {
		values []string
		end    func() error
	}{{aborted, producer.AbortTxn}, {committed, producer.CommitTxn}} {
		if err := producer.BeginTxn(); err != nil {
			return err
		}
		if err := i.send(producer, step.values); err != nil {
			return err
		}
		if err := step.end(); err != nil {
			return err
		}
	}
	return nil
}

// reader keeps the values of its claims until it has enough of them.
type reader struct {
	values []string
	count  int
	stop   context.CancelFunc
}

func (*reader) Setup(sarama.ConsumerGroupSession) error   { return nil }
func (*reader) Cleanup(sarama.ConsumerGroupSession) error { return nil }

func (r *reader) ConsumeClaim(
	session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim,
) error {
	for each := range claim.Messages() {
		r.values = append(r.values, string(each.Value))
		session.MarkMessage(each, "")
		if len(r.values) == r.count {
			r.stop()
		}
	}
	return nil
}

func (i ibm) consume(ctx context.Context, count int) ([]string, error) {
	config, err := i.config()
	if err != nil {
		return nil, err
	}
	group, err := sarama.NewConsumerGroup([]string{i.Address}, i.Group, config)
	if err != nil {
		return nil, err
	}
	defer group.Close()
	running, stop := context.WithCancel(ctx)
	defer stop()
	one := &reader{count: count, stop: stop}
	for running.Err() == nil {
		if err := group.Consume(running, []string{i.Topic}, one); err != nil {
			return nil, err
		}
	}
	if len(one.values) < count {
		select {
		case err := <-group.Errors():
			return nil, err
		default:
			return nil, ctx.Err()
		}
	}
	return one.values, nil
}
