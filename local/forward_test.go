package main

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"tidegate/internal/policy"
	"tidegate/internal/testing/built"
	"tidegate/internal/testing/registrytest"
	"tidegate/internal/testing/valkeytest"
	"tidegate/internal/testing/waiting"
	"tidegate/local/lambda"
)

// The built forward function sends a crossed limit to an event bus or a topic. Its input
// is the log line of the built check function, as a subscription filter of CloudWatch
// Logs delivers it. Both functions run behind the Runtime API.
func TestCrossingReachesItsTarget(t *testing.T) {
	line := crossedLine(t)
	for name, c := range map[string]struct {
		target, answer string
		event          func(*http.Request, []byte) string // returns the event's JSON of a request
	}{
		"eventbridge": {
			"arn:aws:events:us-east-1:123456789012:event-bus/default",
			`{"FailedEntryCount":0,"Entries":[{"EventId":"e"}]}`, putEvent,
		},
		"sns": {
			"arn:aws:sns:us-east-1:123456789012:tidegate-dev-crossings",
			`<PublishBatchResponse xmlns="http://sns.amazonaws.com/doc/2010-03-31/"><PublishBatchResult>` +
				`<Successful><member><Id>0</Id><MessageId>m</MessageId></member></Successful>` +
				`</PublishBatchResult></PublishBatchResponse>`, publishedMessage,
		},
	} {
		t.Run(name, func(t *testing.T) {
			var events []string
			service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, err := io.ReadAll(r.Body)
				if err != nil || !strings.Contains(r.Header.Get("Authorization"), "Credential=test-key/") {
					w.WriteHeader(http.StatusForbidden)
					return
				}
				events = append(events, c.event(r, body))
				_, _ = io.WriteString(w, c.answer)
			}))
			t.Cleanup(service.Close)
			var log waiting.Buffer
			forward, err := lambda.Start(lambda.Config{
				Name: "forward", Binary: built.Program(t, "tidegate/functions/forward"), Warm: 1,
				Timeout: 30 * time.Second, Log: &log, Env: map[string]string{
					"TARGET": c.target, "STAGE": "dev", "AWS_ENDPOINT_URL": service.URL,
					"AWS_ACCESS_KEY_ID": "test-key", "AWS_SECRET_ACCESS_KEY": "test-secret",
				},
			})
			if err != nil {
				t.Fatalf("%v: %s", err, log.String())
			}
			t.Cleanup(forward.Close)
			if _, err := forward.Invoke(t.Context(), delivered(t, line)); err != nil {
				t.Fatalf("%v: %s", err, log.String())
			}
			if len(events) != 1 || !sameEvent(t, line, events[0]) {
				t.Errorf("the service got %q, want one event of %s", events, line)
			}
			if _, err := forward.Invoke(t.Context(), []byte(`{"awslogs":{"data":"x"}}`)); err == nil {
				t.Error("got no error for a malformed event, so Lambda would drop it")
			}
		})
	}
}

// crossedLine returns the line that the check function logs about a limit whose only
// threshold the first of two calls crosses.
func crossedLine(t *testing.T) string {
	t.Helper()
	f := startCheck(t, valkeytest.Start(t), nil)
	registrytest.Save(t, f.store, byTest, func(set *policy.Set) {
		set.Plans[0].Limits = registrytest.Limits("2 per hour, notify at 50 %")
	})
	_, secret := f.newKey(t)
	if _, allowed := f.invokeAll(t, []string{restEvent(secret.Reveal()),
		restEvent(secret.Reveal())}); allowed != 2 {
		t.Fatalf("%d of 2 calls were allowed: %s", allowed, f.log.String())
	}
	var lines []string
	waiting.Until(t, "the function logs that a limit was crossed", func() bool {
		lines = nil
		for line := range strings.Lines(f.log.String()) {
			if strings.Contains(line, `"limit_crossed"`) {
				lines = append(lines, line[strings.IndexByte(line, '{'):])
			}
		}
		return len(lines) > 0
	})
	if len(lines) != 1 {
		t.Fatalf("%d lines: %q", len(lines), lines)
	}
	return strings.TrimSpace(lines[0])
}

// delivered returns the event of a subscription filter with one line:
// https://docs.aws.amazon.com/lambda/latest/dg/services-cloudwatchlogs.html
func delivered(t *testing.T, line string) []byte {
	t.Helper()
	text, err := json.Marshal(map[string]any{
		"messageType": "DATA_MESSAGE", "owner": "123456789012", "logGroup": "/tidegate/dev/check",
		"logStream":           "2026/11/22/[$LATEST]94fa867e5374431291a7fc14e2f56ae7",
		"subscriptionFilters": []string{"CheckCrossings"},
		"logEvents": []map[string]any{{
			"id":        "34622316099697884706540976068822859012661220141643892546",
			"timestamp": 1795341600123, "message": line + "\n",
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	if _, err := w.Write(text); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	event, err := json.Marshal(map[string]any{"awslogs": map[string][]byte{"data": packed.Bytes()}})
	if err != nil {
		t.Fatal(err)
	}
	return event
}

func putEvent(r *http.Request, body []byte) string {
	var in struct {
		Entries []struct{ EventBusName, Source, DetailType, Detail string }
	}
	if err := json.Unmarshal(body, &in); err != nil || len(in.Entries) != 1 ||
		r.Header.Get("X-Amz-Target") != "AWSEvents.PutEvents" {
		return fmt.Sprintf("%v: %s", err, body)
	}
	if e := in.Entries[0]; e.Source == "tidegate" && e.DetailType == "Limit crossed" {
		return e.Detail
	}
	return string(body)
}

func publishedMessage(r *http.Request, body []byte) string {
	r.Body = io.NopCloser(bytes.NewReader(body))
	if err := r.ParseForm(); err != nil || r.Form.Get("Action") != "PublishBatch" {
		return fmt.Sprintf("%v: %s", err, body)
	}
	return r.Form.Get("PublishBatchRequestEntries.member.1.Message")
}

// sameEvent reports whether an event has the fields of the log line, and CloudWatch's id
// of that line.
func sameEvent(t *testing.T, line, event string) bool {
	t.Helper()
	var want, got map[string]any
	if err := json.Unmarshal([]byte(line), &want); err != nil {
		t.Fatalf("%v: %s", err, line)
	}
	if json.Unmarshal([]byte(event), &got) != nil {
		return false
	}
	id := got["id"]
	delete(got, "id")
	return id == "34622316099697884706540976068822859012661220141643892546" &&
		fmt.Sprint(want) == fmt.Sprint(got) && got["threshold"] == 50.0 && got["limit"] != nil
}
