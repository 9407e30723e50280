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

// Settler settles reservations over Tidegate's JSON API. URL and Token are required. It is safe for concurrent use.
type Settler struct {
	URL    string       // of the dashboard, such as https://tidegate.example/prod
	Token  string       // a machine token; scope settle is enough
	Client *http.Client // nil is one that waits for 5 seconds at most
}

// Settlement is what became of a reservation.
type Settlement struct {
	Reserved int64 `json:"reserved"` // what was taken before the call
	Actual   int64 `json:"actual"`   // what was used
	Short    int64 `json:"short"`    // how much of that could not be charged, since a limit was reached
	Partial  bool  `json:"partial"`  // some limits on others than the caller could not be reached: they keep what was reserved
}

// ErrNoSettler means that there is nobody to settle with: the Middleware has no Settler, or ctx is not of a request that it passed on.
var ErrNoSettler = errors.New("middleware: no settler")

// SettleError is a settlement that was refused: 404 or 422 for what is no reservation or cost, 409 for one that was settled before, 410 for one that
// has expired, 401 or 403 for a token that may not settle.
type SettleError struct {
	Status int
	Detail string
}

func (e *SettleError) Error() string {
	return fmt.Sprintf("middleware: settle: %d %s: %s", e.Status, http.StatusText(e.Status), e.Detail)
}

// Settle makes the cost of the request that ctx belongs to what was really used: what was reserved above that is given back, 0 gives back all of it,
// and what was used on top is charged. It does so once for each request, and even when ctx is done, since clients leave early. On a request for
// which nothing was reserved (the route does not settle, or the caller is not limited) it does nothing.
func Settle(ctx context.Context, cost int64) (Settlement, error) {
	c, ok := ctx.Value(contextKey{}).(call)
	switch {
	case ok && c.decision.Reservation == "":
		return Settlement{}, nil
	case !ok || c.settler == nil:
		return Settlement{}, ErrNoSettler
	}
	return c.settler.Settle(ctx, c.decision.Reservation, cost)
}

const settleTimeout = 5 * time.Second

// Settle settles a reservation by its text. An answer that is lost is asked for once more; that the reservation is settled then is success.
func (s *Settler) Settle(ctx context.Context, reservation string, cost int64) (Settlement, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*settleTimeout)
	defer cancel()
	settled, err := s.try(ctx, reservation, cost)
	var refused *SettleError
	if err == nil || errors.As(err, &refused) && refused.Status < http.StatusInternalServerError {
		return settled, err
	}
	settled, err = s.try(ctx, reservation, cost)
	if errors.As(err, &refused) && refused.Status == http.StatusConflict {
		return Settlement{Actual: cost}, nil
	}
	return settled, err
}

func (s *Settler) try(ctx context.Context, reservation string, cost int64) (Settlement, error) {
	body, err := json.Marshal(map[string]any{"reservation": reservation, "cost": cost})
	if err != nil {
		return Settlement{}, fmt.Errorf("middleware: settle: %w", err)
	}
	url := strings.TrimSuffix(s.URL, "/") + "/api/v1/reservations/settle"
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return Settlement{}, fmt.Errorf("middleware: settle: %w", err)
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Authorization", "Bearer "+s.Token)
	response, err := s.client().Do(request)
	if err != nil {
		return Settlement{}, fmt.Errorf("middleware: settle: %w", err)
	}
	defer func() { _ = response.Body.Close() }()
	return readSettlement(response)
}

func (s *Settler) client() *http.Client {
	if s.Client == nil {
		return &http.Client{Timeout: settleTimeout}
	}
	return s.Client
}

const maxAnswer = 1 << 16

func readSettlement(response *http.Response) (Settlement, error) {
	var settled Settlement
	var told problem
	body, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	switch {
	case err != nil:
		return Settlement{}, fmt.Errorf("middleware: settle: %w", err)
	case response.StatusCode != http.StatusOK:
		_ = json.Unmarshal(body, &told) // an answer in another form tells its status
		return Settlement{}, &SettleError{response.StatusCode, told.Detail}
	}
	if err := json.Unmarshal(body, &settled); err != nil {
		return Settlement{}, fmt.Errorf("middleware: settle: %w", err)
	}
	return settled, nil
}
