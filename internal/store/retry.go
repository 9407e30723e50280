package store

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"syscall"
	"time"

	"github.com/valkey-io/valkey-go"
)

// retryPause gives a server time to leave a temporary state, such as the migration of a
// slot.
const retryPause = 10 * time.Millisecond

// Retry calls do, and calls it once more if the first call failed in one of these ways:
//
//   - The command was certainly not executed: Valkey answered TRYAGAIN, CLUSTERDOWN,
//     LOADING or MASTERDOWN, no node was known for the slot, or connecting failed.
//   - The connection ended before the reply. The command may then be executed twice: a
//     check counts one call too many, which errs on the strict side.
//
// After TRYAGAIN, which lasts until a slot has moved to another node, it retries as long
// as ctx leaves time. After a timeout, or when ctx has ended, it does not retry.
func Retry[T any](ctx context.Context, do func(context.Context) (T, error)) (T, error) {
	result, err := do(ctx)
	for moving(err) && pause(ctx, retryPause) {
		result, err = do(ctx)
	}
	switch {
	case err == nil || ctx.Err() != nil:
		return result, err
	case refusedForNow(err):
		if !pause(ctx, retryPause) {
			return result, err
		}
	case !disconnected(err):
		return result, err
	}
	return do(ctx)
}

// moving reports whether the keys of the call are moving to another node.
func moving(err error) bool {
	refusal, ok := errors.AsType[*valkey.ValkeyError](err)
	return ok && refusal.IsTryAgain()
}

// refusedForNow reports whether the server refused a command that it will accept later.
func refusedForNow(err error) bool {
	if errors.Is(err, valkey.ErrNoSlot) {
		return true
	}
	refusal, ok := errors.AsType[*valkey.ValkeyError](err)
	return ok && (refusal.IsTryAgain() || refusal.IsClusterDown() || refusal.IsLoading() ||
		strings.HasPrefix(refusal.Error(), "MASTERDOWN"))
}

// disconnected reports whether connecting failed or the connection ended, except by a
// timeout.
func disconnected(err error) bool {
	network, ok := errors.AsType[net.Error](err)
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) ||
		ok && network.Timeout() {
		return false
	}
	for _, end := range []error{io.EOF, io.ErrUnexpectedEOF, syscall.ECONNREFUSED, syscall.ECONNRESET,
		syscall.ECONNABORTED, syscall.EPIPE} {
		if errors.Is(err, end) {
			return true
		}
	}
	operation, ok := errors.AsType[*net.OpError](err)
	return ok && operation.Op == "dial"
}

// pause waits before the next attempt. It reports whether the context leaves time for it.
func pause(ctx context.Context, d time.Duration) bool {
	if end, ends := answersEnd(ctx); ends && time.Until(end) <= d {
		return false
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// OwnCode is the code of errors that this project's scripts return: they are about a key,
// not about the server.
const OwnCode = "TIDEGATE"

// Unavailable reports whether an error means that Valkey cannot serve such calls now: it
// was not reached, did not answer in time, or refused a command, for whatever reason. Only
// what a script found in the keys of the call is no refusal: a value of another type, an
// error that the script returned (OwnCode), or one in the middle of it.
func Unavailable(err error) bool {
	refusal, ok := errors.AsType[*valkey.ValkeyError](err)
	switch {
	case err == nil, ok && refusal.IsNil():
		return false
	case !ok:
		return true
	}
	text := refusal.Error() // the library leaves out ERR
	code, _, _ := strings.Cut(text, " ")
	if code == strings.ToUpper(code) {
		return code != "WRONGTYPE" && code != OwnCode
	}
	return !strings.Contains(text, "user_script:") && !strings.HasPrefix(text, "Error compiling script")
}

// Refusal returns the code of the server's refusal, such as READONLY or OOM, and ERR for
// one without a code. It returns "" if err is no refusal. It contains nothing of a call.
func Refusal(err error) string {
	refusal, ok := errors.AsType[*valkey.ValkeyError](err)
	if !ok || refusal.IsNil() {
		return ""
	}
	code, _, _ := strings.Cut(refusal.Error(), " ")
	if strings.Trim(code, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") != "" || code == "" {
		return "ERR"
	}
	return code
}
