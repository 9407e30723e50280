package main

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/events"
)

// delivered returns an event as a subscription filter delivers it:
// https://docs.aws.amazon.com/lambda/latest/dg/services-cloudwatchlogs.html
func delivered(t *testing.T, messages ...string) events.CloudwatchLogsEvent {
	t.Helper()
	data := events.CloudwatchLogsData{MessageType: "DATA_MESSAGE", LogGroup: "/tidegate/dev/check"}
	for i, m := range messages {
		data.LogEvents = append(data.LogEvents, events.CloudwatchLogsLogEvent{ID: fmt.Sprint("line", i),
			Timestamp: 1_800_000_000_000 + int64(i), Message: m})
	}
	text, err := json.Marshal(data)
	if err != nil {
		t.Fatal(err)
	}
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	_, _ = w.Write(text)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return events.CloudwatchLogsEvent{AWSLogs: events.CloudwatchLogsRawData{
		Data: base64.StdEncoding.EncodeToString(packed.Bytes())}}
}

// crossed returns n log lines of crossed limits.
func crossed(n int) (lines []string) {
	for i := range n {
		lines = append(lines, fmt.Sprintf(`{"msg":"limit crossed","event":"limit_crossed","key_id":"k%d",`+
			`"threshold":80}`, i))
	}
	return lines
}

// eventBridge answers as EventBridge does, and refuses some events.
type eventBridge struct {
	refuse  map[string]int // how often, by key id
	taken   []string       // key ids
	batches []int
	bus     string
}

func (b *eventBridge) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Entries []struct{ EventBusName, Source, DetailType, Detail string }
	}
	body, _ := io.ReadAll(r.Body)
	if err := json.Unmarshal(body, &in); err != nil || r.Header.Get("X-Amz-Target") != "AWSEvents.PutEvents" {
		http.Error(w, "bad request", http.StatusBadRequest)
		return
	}
	type result struct {
		EventID   string `json:"EventId,omitempty"`
		ErrorCode string `json:",omitempty"`
	}
	var out struct {
		FailedEntryCount int
		Entries          []result
	}
	b.batches = append(b.batches, len(in.Entries))
	for _, e := range in.Entries {
		var detail struct {
			ID    string
			KeyID string `json:"key_id"`
		}
		if json.Unmarshal([]byte(e.Detail), &detail) != nil || detail.ID == "" || e.Source != source ||
			e.DetailType != detailType {
			http.Error(w, "bad entry", http.StatusBadRequest)
			return
		}
		b.bus = e.EventBusName
		if b.refuse[detail.KeyID] > 0 {
			b.refuse[detail.KeyID]--
			out.FailedEntryCount++
			out.Entries = append(out.Entries, result{ErrorCode: "ThrottlingException"})
			continue
		}
		b.taken = append(b.taken, detail.KeyID)
		out.Entries = append(out.Entries, result{EventID: "1"})
	}
	w.Header().Set("Content-Type", "application/x-amz-json-1.1")
	_ = json.NewEncoder(w).Encode(out)
}

const busARN = "arn:aws:events:eu-west-1:111122223333:event-bus/default"

// newTestForwarder returns a forwarder whose AWS service is the handler.
func newTestForwarder(t *testing.T, target string, service http.Handler, log io.Writer) *forwarder {
	t.Helper()
	server := httptest.NewServer(service)
	t.Cleanup(server.Close)
	f, err := newForwarder([]string{"TARGET=" + target, "STAGE=dev", "AWS_REGION=eu-west-1",
		"AWS_ENDPOINT_URL=" + server.URL, "AWS_ACCESS_KEY_ID=a", "AWS_SECRET_ACCESS_KEY=b"},
		slog.New(slog.NewTextHandler(log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	f.pause = time.Millisecond
	return f
}

// Every event is sent once, ten in a batch, and only refused events are sent again.
func TestForwardToEventBridge(t *testing.T) {
	service := &eventBridge{refuse: map[string]int{"k3": 1, "k12": 2}}
	f := newTestForwarder(t, busARN, service, io.Discard)
	if err := f.Forward(t.Context(), delivered(t, crossed(13)...)); err != nil {
		t.Fatal(err)
	}
	slices.Sort(service.taken)
	if len(service.taken) != 13 || len(slices.Compact(service.taken)) != 13 || service.bus != busARN {
		t.Errorf("%s accepted %v, want each of 13 events once on %s", service.bus, service.taken, busARN)
	}
	if want := []int{10, 1, 3, 1, 1}; !slices.Equal(service.batches, want) {
		t.Errorf("batches %v, want %v", service.batches, want)
	}
}

// Events that stay refused, or an unavailable service, fail the invocation. Lambda then
// retries it and finally keeps it in the dead-letter queue.
func TestForwardFails(t *testing.T) {
	service := &eventBridge{refuse: map[string]int{"k1": 9}}
	err := newTestForwarder(t, busARN, service, io.Discard).Forward(t.Context(), delivered(t, crossed(3)...))
	if err == nil || !strings.Contains(err.Error(), "1 events were not accepted") ||
		!strings.Contains(err.Error(), "ThrottlingException") || len(service.taken) != 2 {
		t.Errorf("got %v; accepted %v, want two events and an error for the third", err, service.taken)
	}
	unavailable := http.HandlerFunc(func(w http.ResponseWriter,
		_ *http.Request) {
		w.WriteHeader(http.StatusForbidden)
	})
	if err := newTestForwarder(t, busARN, unavailable, io.Discard).Forward(t.Context(),
		delivered(t, crossed(1)...)); err == nil {
		t.Error("got no error from a service that refuses everything")
	}
	broken := events.CloudwatchLogsEvent{AWSLogs: events.CloudwatchLogsRawData{Data: "x"}}
	if err := newTestForwarder(t, busARN, service, io.Discard).Forward(t.Context(), broken); err == nil {
		t.Error("got no error for an unreadable event")
	}
}

// Other log lines are skipped, and the log does not repeat their text.
func TestOtherLines(t *testing.T) {
	service, log := &eventBridge{}, &bytes.Buffer{}
	f := newTestForwarder(t, busARN, service, log)
	lines := append(crossed(1), "not JSON", `{"msg":"denied","key_id":"secret"}`, `[]`, `null`)
	if err := f.Forward(t.Context(), delivered(t, lines...)); err != nil || len(service.taken) != 1 {
		t.Errorf("got %v; accepted %v, want one event", err, service.taken)
	}
	if strings.Contains(log.String(), "secret") || strings.Count(log.String(), "\n") != 4 {
		t.Errorf("want 4 log lines without the skipped text:\n%s", log)
	}
}

// A topic gets the events in batches. A refused event is sent again, and fails the
// invocation if it stays refused.
func TestForwardToSNS(t *testing.T) {
	var taken, refused, tests int
	maxRefused := 1
	service := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ParseForm() != nil || r.Form.Get("Action") != "PublishBatch" {
			http.Error(w, "bad request", http.StatusBadRequest)
			return
		}
		var good, bad strings.Builder
		for i := 1; r.Form.Has(fmt.Sprintf("PublishBatchRequestEntries.member.%d.Id", i)); i++ {
			entry := fmt.Sprintf("PublishBatchRequestEntries.member.%d.", i)
			id := r.Form.Get(entry + "Id")
			if strings.Contains(r.Form.Get(entry+"Message"), `"k2"`) && refused < maxRefused {
				refused++
				fmt.Fprintf(&bad, "<member><Id>%s</Id><Code>InternalError</Code><SenderFault>false"+
					"</SenderFault></member>", id)
				continue
			}
			taken++
			isTest := strings.HasPrefix(r.Form.Get(entry+"Subject"), "Test: ")
			if isTest != strings.Contains(r.Form.Get(entry+"Message"), `"test":true`) {
				http.Error(w, "the subject does not mark a test", http.StatusBadRequest)
				return
			}
			if isTest {
				tests++
			}
			fmt.Fprintf(&good, "<member><Id>%s</Id><MessageId>m</MessageId></member>", id)
		}
		fmt.Fprintf(w, `<PublishBatchResponse xmlns="http://sns.amazonaws.com/doc/2010-03-31/">`+
			`<PublishBatchResult><Failed>%s</Failed><Successful>%s</Successful></PublishBatchResult>`+
			`<ResponseMetadata><RequestId>r</RequestId></ResponseMetadata></PublishBatchResponse>`,
			&bad, &good)
	})
	f := newTestForwarder(t, "arn:aws:sns:eu-west-1:111122223333:tidegate-dev-crossings", service, io.Discard)
	lines := append(crossed(11), `{"event":"limit_crossed","key_id":"test","test":true}`)
	if err := f.Forward(t.Context(), delivered(t, lines...)); err != nil || taken != 12 ||
		refused != 1 || tests != 1 {
		t.Errorf("%v: %d accepted, %d tests, %d refused; want 12, 1 and 1", err, taken, tests, refused)
	}
	maxRefused = 99
	if err := f.Forward(t.Context(), delivered(t, crossed(3)...)); err == nil ||
		!strings.Contains(err.Error(), "1 events were not accepted") ||
		!strings.Contains(err.Error(), "InternalError") {
		t.Errorf("got %v, want an error for the event that stays refused", err)
	}
}

// A target that is neither a bus nor a topic is refused at the start.
func TestBadTarget(t *testing.T) {
	for _, target := range []string{"", "x", "arn:aws:sqs:eu-west-1:111122223333:q"} {
		if _, err := newForwarder([]string{"TARGET=" + target}, slog.New(slog.DiscardHandler)); err == nil ||
			!strings.Contains(err.Error(), "TARGET") {
			t.Errorf("%q: %v", target, err)
		}
	}
}
