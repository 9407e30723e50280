package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eventbridge"
	bustypes "github.com/aws/aws-sdk-go-v2/service/eventbridge/types"
	"github.com/aws/aws-sdk-go-v2/service/sns"
	topictypes "github.com/aws/aws-sdk-go-v2/service/sns/types"
)

// target accepts events. send sends up to maxBatch events and returns those that were not
// accepted, with an error.
type target interface {
	send(ctx context.Context, batch []event) (failed []event, err error)
}

// maxBatch is the most events that PutEvents and PublishBatch accept:
// https://docs.aws.amazon.com/eventbridge/latest/APIReference/API_PutEvents.html
// https://docs.aws.amazon.com/sns/latest/api/API_PublishBatch.html
const maxBatch = 10

// errRefused means that a service did not accept every event.
var errRefused = errors.New("refused")

// The source and detail type of events on the bus.
const (
	source     = "tidegate"
	detailType = "Limit crossed"
)

// bus is an EventBridge event bus.
type bus struct {
	client *eventbridge.Client
	settings
}

func newBus(s settings) *bus {
	return &bus{eventbridge.New(eventbridge.Options{Region: s.Region, Credentials: s,
		BaseEndpoint: s.endpoint()}), s}
}

func (b *bus) send(ctx context.Context, batch []event) (failed []event, err error) {
	entries := make([]bustypes.PutEventsRequestEntry, len(batch))
	for i, e := range batch {
		entries[i] = bustypes.PutEventsRequestEntry{
			EventBusName: &b.Target, Source: aws.String(source), DetailType: aws.String(detailType),
			Detail: aws.String(string(e.detail)), Time: &e.at, Resources: []string{"tidegate-" + b.Stage},
		}
	}
	out, err := b.client.PutEvents(ctx, &eventbridge.PutEventsInput{Entries: entries})
	if err != nil || len(out.Entries) != len(batch) {
		return batch, errors.Join(errRefused, err)
	}
	for i, entry := range out.Entries {
		if entry.ErrorCode != nil {
			failed, err = append(failed, batch[i]), fmt.Errorf("%w: %s", errRefused, *entry.ErrorCode)
		}
	}
	return failed, err
}

// topic is an SNS topic.
type topic struct {
	client *sns.Client
	settings
}

func newTopic(s settings) *topic {
	return &topic{sns.New(sns.Options{Region: s.Region, Credentials: s, BaseEndpoint: s.endpoint()}), s}
}

func (t *topic) send(ctx context.Context, batch []event) (failed []event, err error) {
	entries := make([]topictypes.PublishBatchRequestEntry, len(batch))
	for i, e := range batch {
		subject := detailType + " (" + t.Stage + ")"
		if e.test {
			subject = "Test: " + subject
		}
		entries[i] = topictypes.PublishBatchRequestEntry{
			Id: aws.String(strconv.Itoa(i)), Subject: &subject,
			Message: aws.String(string(e.detail)),
		}
	}
	out, err := t.client.PublishBatch(ctx, &sns.PublishBatchInput{TopicArn: &t.Target,
		PublishBatchRequestEntries: entries})
	if err != nil {
		return batch, errors.Join(errRefused, err)
	}
	for _, entry := range out.Failed {
		if i, unreadable := strconv.Atoi(*entry.Id); unreadable == nil && i < len(batch) {
			failed = append(failed, batch[i])
			err = fmt.Errorf("%w: %s", errRefused, *entry.Code)
		}
	}
	return failed, err
}
