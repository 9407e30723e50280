package middleware

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// Call is what a program asks about. docs/direct.md describes each member. It has either
// Subject or APIKey.
type Call struct {
	Subject string `json:"subject,omitempty"` // as the program has identified the caller
	Issuer  string `json:"issuer,omitempty"`
	Plan    string `json:"plan,omitempty"`
	Group   string `json:"group,omitempty"`
	APIKey  string `json:"apiKey,omitempty"`

	Method  string `json:"method,omitempty"`
	Path    string `json:"path,omitempty"`
	API     string `json:"api,omitempty"`
	Stage   string `json:"stage,omitempty"`
	Address string `json:"address,omitempty"`

	Cost   Costs `json:"cost,omitempty"`
	Settle bool  `json:"settle,omitempty"`
}

// Answer is the answer to a Call: a response for the client, and what an authorizer would
// add for backends.
type Answer struct {
	Allowed bool              `json:"allowed"`
	Status  int               `json:"status"`
	Headers map[string]string `json:"headers"`
	Body    string            `json:"body"`
	Context map[string]any    `json:"context"`
}

// Door makes direct calls. It is safe for concurrent use.
type Door struct {
	send func(ctx context.Context, kind string, call []byte) ([]byte, error)
}

// MistakeError is a mistake in a direct call, which another attempt does not mend.
type MistakeError struct{ Text string }

func (e *MistakeError) Error() string { return "middleware: direct call: " + e.Text }

// askTimeout bounds one call of a Door. The check itself takes a fraction of a second.
const askTimeout = 2 * time.Second

// OnMachine returns a Door to check -listen, at a URL such as http://127.0.0.1:2773. A nil
// client is http.DefaultClient.
func OnMachine(url string, client *http.Client) *Door {
	if client == nil {
		client = http.DefaultClient
	}
	return &Door{func(ctx context.Context, kind string, call []byte) ([]byte, error) {
		to := strings.TrimSuffix(url, "/") + "/" + kind
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, to, bytes.NewReader(call))
		if err != nil {
			return nil, err
		}
		r.Header.Set("Content-Type", "application/json")
		response, err := client.Do(r)
		if err != nil {
			return nil, err
		}
		defer func() { _ = response.Body.Close() }()
		body, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
		if err != nil || response.StatusCode == http.StatusOK {
			return body, err
		}
		var failed struct {
			Error string `json:"error"`
		}
		_ = json.Unmarshal(body, &failed) // another form leaves the text empty
		if response.StatusCode == http.StatusBadRequest {
			return nil, &MistakeError{failed.Error}
		}
		return nil, &SettleError{Status: response.StatusCode, Detail: failed.Error}
	}}
}

// ByInvoke returns a Door to the check function on Lambda. invoke calls Invoke of an SDK,
// and returns the payload and whether there was a FunctionError: docs/direct.md has it for
// aws-sdk-go-v2.
func ByInvoke(invoke func(ctx context.Context, payload []byte) (answer []byte, failed bool,
	err error)) *Door {
	return &Door{func(ctx context.Context, _ string, call []byte) ([]byte, error) {
		answer, failed, err := invoke(ctx, call)
		if err != nil || !failed {
			return answer, err
		}
		var why struct {
			Type    string `json:"errorType"`
			Message string `json:"errorMessage"`
		}
		_ = json.Unmarshal(answer, &why) // another form leaves the texts empty
		switch why.Type {
		case "Mistake":
			return nil, &MistakeError{why.Message}
		case "Conflict":
			return nil, &SettleError{Status: http.StatusConflict, Detail: why.Message}
		}
		return nil, &SettleError{Status: http.StatusServiceUnavailable, Detail: why.Message}
	}}
}

// Check asks about a call, and takes from its limits if it is allowed. It is not tried
// again, since a second attempt could take twice. Its error is a *MistakeError, or means
// that the door cannot be reached.
func (d *Door) Check(ctx context.Context, c Call) (Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	body, err := json.Marshal(struct {
		Tidegate string `json:"tidegate"`
		Call
	}{"check", c})
	if err != nil {
		return Answer{}, fmt.Errorf("middleware: check: %w", err)
	}
	var a Answer
	text, err := d.send(ctx, "check", body)
	if err == nil {
		err = json.Unmarshal(text, &a)
	}
	if err == nil && (a.Status == 0 || a.Allowed != (a.Status == http.StatusOK)) {
		err = errors.New("the answer is not one of the check function")
	}
	if err != nil {
		return Answer{}, fmt.Errorf("middleware: check: %w", err)
	}
	return a, nil
}

// settle makes one attempt to settle a call. cost encodes to a number, or to an object of
// numbers by unit.
func (d *Door) settle(ctx context.Context, text string, cost any) (Settlement, error) {
	body, err := json.Marshal(map[string]any{"tidegate": "settle", "settlement": text, "cost": cost})
	if err != nil {
		return Settlement{}, fmt.Errorf("middleware: settle: %w", err)
	}
	var settled Settlement
	answer, err := d.send(ctx, "settle", body)
	var mistake *MistakeError
	if errors.As(err, &mistake) {
		return Settlement{}, &SettleError{Status: http.StatusBadRequest, Detail: mistake.Text}
	}
	if err == nil {
		err = json.Unmarshal(answer, &settled)
	}
	if err != nil {
		return Settlement{}, fmt.Errorf("middleware: settle: %w", err)
	}
	return settled, nil
}
