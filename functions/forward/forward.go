package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-sdk-go-v2/aws"

	"tidegate/internal/config"
	"tidegate/internal/telemetry"
)

// event is a crossed limit.
type event struct {
	id     string    // of the log line in CloudWatch Logs; the same when it is sent again
	at     time.Time // of the log line
	detail []byte    // JSON of the log line, with the id
	test   bool      // somebody tests the way of the events
}

const (
	// attempts is how often a batch is sent. If the last attempt fails, Lambda invokes
	// the function again with all events, and finally puts them into the dead-letter
	// queue.
	attempts = 3
	// pause doubles before each attempt from the second on, which comes after 400 ms.
	pause = 200 * time.Millisecond
)

// forwarder sends events to a target.
type forwarder struct {
	target target
	log    *slog.Logger
	pause  time.Duration
}

// Forward handles log lines that a subscription filter of CloudWatch Logs delivers. It
// returns an error unless the target accepted every event.
func (f *forwarder) Forward(ctx context.Context, delivered events.CloudwatchLogsEvent) error {
	data, err := delivered.AWSLogs.Parse()
	if err != nil {
		return fmt.Errorf("read the event of CloudWatch Logs: %w", err)
	}
	for batch := range slices.Chunk(f.eventsOf(data), maxBatch) {
		if err := f.send(ctx, batch); err != nil {
			return err
		}
	}
	return nil
}

// eventsOf returns the events of the log lines. It logs and skips any line that is not of
// a crossed limit, since the subscription filter should have left it out.
func (f *forwarder) eventsOf(data events.CloudwatchLogsData) []event {
	var all []event
	for _, line := range data.LogEvents {
		detail := map[string]any{}
		if err := json.Unmarshal([]byte(line.Message), &detail); err != nil ||
			detail["event"] != telemetry.LimitCrossed {
			f.log.Warn("not a crossed limit", "line", line.ID)
			continue
		}
		detail["id"] = line.ID
		text, _ := json.Marshal(detail) // what was decoded always encodes
		test, _ := detail["test"].(bool)
		all = append(all, event{line.ID, time.UnixMilli(line.Timestamp).UTC(), text, test})
	}
	return all
}

// send sends a batch, and sends events that were not accepted again.
func (f *forwarder) send(ctx context.Context, batch []event) error {
	for attempt := 1; ; attempt++ {
		failed, err := f.target.send(ctx, batch)
		if len(failed) == 0 {
			return nil
		}
		if attempt == attempts {
			return fmt.Errorf("%d events were not accepted: %w", len(failed), err)
		}
		batch = failed
		select {
		case <-time.After(f.pause << attempt):
		case <-ctx.Done():
			return fmt.Errorf("%d events were not accepted: %w", len(failed), ctx.Err())
		}
	}
}

// settings is the function's environment, which infra sets.
type settings struct {
	Target string `env:"TARGET"` // ARN of an event bus or a topic
	Stage  string `env:"STAGE"`

	Region       string `env:"AWS_REGION"`
	Endpoint     string `env:"AWS_ENDPOINT_URL"` // for tests
	AccessKey    string `env:"AWS_ACCESS_KEY_ID"`
	SecretKey    string `env:"AWS_SECRET_ACCESS_KEY"`
	SessionToken string `env:"AWS_SESSION_TOKEN"`
}

func newForwarder(variables []string, log *slog.Logger) (*forwarder, error) {
	s, problems := config.Read[settings](variables)
	service := ""
	if parts := strings.Split(s.Target, ":"); len(parts) > 2 {
		service = parts[2]
	}
	if service != "events" && service != "sns" {
		problems.Add("TARGET", fmt.Sprintf("is %q: must be the ARN of an event bus or a topic", s.Target))
	}
	if err := problems.Err(); err != nil {
		return nil, fmt.Errorf("environment: %w", err)
	}
	f := &forwarder{log: log, pause: pause}
	if service == "sns" {
		f.target = newTopic(s)
	} else {
		f.target = newBus(s)
	}
	return f, nil
}

// Retrieve returns the credentials of the Lambda environment.
func (s settings) Retrieve(context.Context) (aws.Credentials, error) {
	return aws.Credentials{AccessKeyID: s.AccessKey, SecretAccessKey: s.SecretKey,
		SessionToken: s.SessionToken}, nil
}

func (s settings) endpoint() *string {
	if s.Endpoint == "" {
		return nil
	}
	return &s.Endpoint
}
