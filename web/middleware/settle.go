package middleware

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Settler settles calls over Tidegate's JSON API, for which URL and Token are required, or
// through a Door. It is safe for concurrent use.
type Settler struct {
	Door   *Door
	URL    string       // address of the dashboard, such as https://tidegate.example/prod
	Token  string       // a machine token; scope settle is enough
	Client *http.Client // nil is http.DefaultClient; each attempt ends after 5 seconds
}

// Costs is a cost in each unit, such as input and output. The unit "cost" is that of limits
// without a unit. Empty Costs are 0 in every unit.
type Costs map[string]int64

// plainCost is the unit of limits without a unit.
const plainCost = "cost"

// MarshalJSON encodes a cost without other units as a number.
func (c Costs) MarshalJSON() ([]byte, error) {
	if cost, plain := c[plainCost]; len(c) == 0 || plain && len(c) == 1 {
		return strconv.AppendInt(nil, cost, 10), nil
	}
	return json.Marshal(map[string]int64(c))
}

// UnmarshalJSON decodes a number, or an object of numbers by unit.
func (c *Costs) UnmarshalJSON(data []byte) error {
	var cost int64
	if json.Unmarshal(data, &cost) != nil {
		return json.Unmarshal(data, (*map[string]int64)(c))
	}
	if *c = nil; cost != 0 {
		*c = Costs{plainCost: cost}
	}
	return nil
}

// Settlement is the result of settling a call.
type Settlement struct {
	Reserved Costs `json:"reserved"` // taken before the call
	Actual   Costs `json:"actual"`   // actually used
	// Owed is what a limit counts above its number: the largest such part over all limits.
	// The limit denies until it has drained.
	Owed int64 `json:"owed"`
	// Partial reports that a part of the refund is still counted, or that the limits of the
	// caller's group could not be reached.
	Partial bool `json:"partial"`
}

// ErrNoSettler means that the Middleware has no Settler, or that ctx does not belong to a
// request that it admitted.
var ErrNoSettler = errors.New("middleware: no settler")

// SettleError is a refused settlement: 404 or 422 for an invalid settlement or cost, 409
// for one that is already settled, 410 for one that has expired, 401 or 403 for a token
// that may not settle, 429 or 5xx if the API was unavailable to every attempt.
type SettleError struct {
	Status int
	Detail string

	retryAfter time.Duration // of the response; 0 for none
}

func (e *SettleError) Error() string {
	return fmt.Sprintf("middleware: %d %s: %s", e.Status, http.StatusText(e.Status), e.Detail)
}

// Settle charges the actual cost of the request of ctx. It refunds the unused part of the
// taken cost, all of it for 0, and charges any cost above it. It settles once for each
// request, and also after ctx ends, since clients may disconnect. It does nothing for a
// request without a settlement: the route does not settle, or the caller is not limited.
func Settle(ctx context.Context, cost int64) (Settlement, error) {
	return SettleUnits(ctx, Costs{plainCost: cost})
}

// SettleUnits is Settle for a route whose cost has units. A unit that costs lacks keeps
// what was taken.
func SettleUnits(ctx context.Context, costs Costs) (Settlement, error) {
	c, ok := ctx.Value(contextKey{}).(call)
	switch {
	case ok && c.decision.Settlement == "":
		return Settlement{}, nil
	case !ok || c.settler == nil:
		return Settlement{}, ErrNoSettler
	}
	c.settled.Store(true)
	return c.settler.SettleUnits(ctx, c.decision.Settlement, costs)
}

// Bounds of one settlement with its retries.
const (
	settleTimeout  = 5 * time.Second  // of one attempt
	settleDeadline = 15 * time.Second // of all attempts and the pauses between them
	settleAttempts = 5
	settlePause    = 200 * time.Millisecond // before the second attempt; doubled before each one after it
	maxRetryAfter  = 5 * time.Second        // a longer Retry-After is shortened to it
)

// Settle settles a call by the text of its context. It retries after a connection error, a 429 or
// a 5xx, at most settleAttempts times within settleDeadline, with random pauses. Retries
// are safe since a call settles once. A 409 is success if an earlier attempt of
// this call may have settled; only the costs of that settlement are known.
func (s *Settler) Settle(ctx context.Context, settlement string, cost int64) (Settlement, error) {
	return s.SettleUnits(ctx, settlement, Costs{plainCost: cost})
}

// SettleUnits is Settle with costs in units. A unit that costs lacks keeps what was
// reserved. A cost below 0 is an error at once.
func (s *Settler) SettleUnits(ctx context.Context, settlement string, costs Costs) (Settlement, error) {
	for unit, cost := range costs {
		if cost < 0 {
			return Settlement{}, fmt.Errorf("middleware: settle: %s is %d: must be a whole number from 0",
				unit, cost)
		}
	}
	settled, err := s.settle(ctx, settlement, costs)
	if errors.Is(err, errSettledBefore) {
		return Settlement{Actual: costs}, nil
	}
	return settled, err
}

// errSettledBefore means that an earlier attempt of the same settlement has settled.
var errSettledBefore = errors.New("settled by an earlier attempt")

// check returns an error for a URL or token that can never be sent, without quoting the token.
func (s *Settler) check() error {
	to, err := url.Parse(strings.TrimSpace(s.URL))
	token := strings.TrimSpace(s.Token)
	switch {
	case s.Door != nil:
		return nil
	case err != nil || to.Host == "":
		return errors.New("middleware: settle: URL of Settler is not of the form https://HOST/PATH")
	case token == "" || strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }):
		return errors.New("middleware: settle: Token of Settler is empty, or has characters that no " +
			"token has")
	}
	return nil
}

// settle is SettleUnits with a cost of any form.
func (s *Settler) settle(ctx context.Context, settlement string, costs any) (Settlement, error) {
	if err := s.check(); err != nil {
		return Settlement{}, err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleDeadline)
	defer cancel()
	mayBeSettled := false
	for attempt := 1; ; attempt++ {
		settled, err := s.try(ctx, settlement, costs)
		var refused *SettleError
		answered := errors.As(err, &refused)
		switch {
		case err == nil:
			return settled, nil
		case answered && refused.Status == http.StatusConflict && mayBeSettled:
			return Settlement{}, errSettledBefore
		case answered && !refused.temporary(), attempt == settleAttempts:
			return Settlement{}, err
		}
		mayBeSettled = mayBeSettled || arrived(err, refused)
		if !wait(ctx, pauseBefore(attempt+1, refused)) {
			return Settlement{}, err
		}
	}
}

// arrived reports whether a failed attempt may have settled: it had a connection and was
// not throttled. refused is nil without a response.
func arrived(err error, refused *SettleError) bool {
	var connection *net.OpError
	if errors.As(err, &connection) && connection.Op == "dial" {
		return false
	}
	return refused == nil || refused.Status != http.StatusTooManyRequests
}

// temporary reports whether another attempt may succeed.
func (e *SettleError) temporary() bool {
	return e.Status == http.StatusTooManyRequests || e.Status >= http.StatusInternalServerError
}

// pauseBefore returns the pause before an attempt, from the second on: 50 to 100 % of a
// pause that doubles, plus the response's Retry-After of at most maxRetryAfter. refused
// may be nil.
func pauseBefore(attempt int, refused *SettleError) time.Duration {
	pause := settlePause << (attempt - 2)
	pause -= rand.N(pause / 2) //nolint:gosec // spreads attempts
	if refused != nil {
		pause += min(refused.retryAfter, maxRetryAfter)
	}
	return pause
}

// wait waits for the pause and returns true. It returns false at once if ctx would end
// first, or as soon as ctx is canceled.
func wait(ctx context.Context, pause time.Duration) bool {
	if end, ok := ctx.Deadline(); ok && time.Until(end) < pause {
		return false
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

func (s *Settler) try(ctx context.Context, settlement string, costs any) (Settlement, error) {
	if s.Door != nil {
		ctx, cancel := context.WithTimeout(ctx, settleTimeout)
		defer cancel()
		return s.Door.settle(ctx, settlement, costs)
	}
	body, err := json.Marshal(map[string]any{"settlement": settlement, "cost": costs})
	if err != nil {
		return Settlement{}, fmt.Errorf("middleware: settle: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, settleTimeout)
	defer cancel()
	to := strings.TrimSuffix(strings.TrimSpace(s.URL), "/") + "/api/v1/settlements"
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, to, bytes.NewReader(body))
	if err != nil {
		return Settlement{}, fmt.Errorf("middleware: settle: %w", err)
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Authorization", "Bearer "+strings.TrimSpace(s.Token))
	response, err := s.client().Do(request)
	if err != nil {
		return Settlement{}, fmt.Errorf("middleware: settle: %w", err)
	}
	defer func() { _ = response.Body.Close() }()
	return readSettlement(response)
}

func (s *Settler) client() *http.Client {
	if s.Client == nil {
		return http.DefaultClient
	}
	return s.Client
}

const maxAnswer = 1 << 16 // bytes

func readSettlement(response *http.Response) (Settlement, error) {
	var settled Settlement
	var refusal struct {
		Detail string
		Errors []struct{ Location, Message string }
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	switch {
	case err != nil:
		return Settlement{}, fmt.Errorf("middleware: settle: %w", err)
	case response.StatusCode != http.StatusOK:
		_ = json.Unmarshal(body, &refusal) // another form leaves the detail empty
		for _, wrong := range refusal.Errors {
			refusal.Detail += " " + wrong.Location + " " + wrong.Message + "."
		}
		return Settlement{}, &SettleError{response.StatusCode, refusal.Detail, retryAfter(response.Header)}
	}
	if err := json.Unmarshal(body, &settled); err != nil {
		return Settlement{}, fmt.Errorf("middleware: settle: %w", err)
	}
	return settled, nil
}

// retryAfter parses Retry-After in both of its forms; 0 for none.
func retryAfter(h http.Header) time.Duration {
	text := h.Get("Retry-After")
	if seconds, err := strconv.ParseInt(text, 10, 32); err == nil {
		return time.Duration(max(seconds, 0)) * time.Second
	}
	if at, err := http.ParseTime(text); err == nil {
		return max(time.Until(at), 0)
	}
	return 0
}
