package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/signal"
	"syscall"
	"time"

	"tidegate/functions/check/direct"
	"tidegate/internal/store"
)

// The check function also runs as a server beside a program: check -listen ADDRESS answers
// direct calls over HTTP on the machine. It has no TLS and asks for no credential of its
// own, so it listens to this machine alone.

const listenUsage = `Usage: check [-listen ADDRESS [-anywhere]]

Without arguments it serves Lambda. With -listen it serves direct calls as JSON:

  POST /check     {"subject":"user-42","plan":"pro","method":"GET","path":"/orders/7"}
  POST /settle    {"settlement":"…","cost":5}
  GET  /healthz   200 while Valkey answers, else 503

It reads the same environment variables as on Lambda.

  -listen ADDRESS   such as 127.0.0.1:2773
  -anywhere         allow an address that other machines reach: it has no TLS, and whoever
                    reaches it may check calls for anybody
`

// Bounds of the server.
const (
	maxInFlight  = 512              // requests that are answered at a time; others get 503
	maxBody      = 64 << 10         // bytes
	readTimeout  = 5 * time.Second  // of a request
	drainTimeout = 10 * time.Second // for requests under way at the end
)

// listenAddress returns the address of the flags; empty on Lambda. Its error is a usage
// error.
func listenAddress(args []string, help io.Writer) (string, error) {
	flags := flag.NewFlagSet("check", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	listen := flags.String("listen", "", "")
	anywhere := flags.Bool("anywhere", false, "")
	if err := flags.Parse(args); err != nil {
		_, _ = io.WriteString(help, listenUsage)
		return "", err
	}
	if flags.NArg() > 0 {
		return "", fmt.Errorf("%q is not a flag: see check -h", flags.Arg(0))
	}
	if *listen == "" || *anywhere {
		return *listen, nil
	}
	host, _, err := net.SplitHostPort(*listen)
	if err != nil {
		return "", fmt.Errorf("-listen is %q: must be an address and a port such as 127.0.0.1:2773", *listen)
	}
	if a, err := netip.ParseAddr(host); host != "localhost" && (err != nil || !a.IsLoopback()) {
		return "", fmt.Errorf("-listen is %q, which other machines may reach: must be a loopback address "+
			"such as 127.0.0.1:2773. There is no TLS and no log-in; -anywhere allows it nevertheless",
			*listen)
	}
	return *listen, nil
}

// serve answers direct calls over HTTP until SIGTERM or SIGINT.
func serve(a *assembled, address string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	// The log has no addresses, so it says the port, which ADDRESS may leave to the system.
	a.log.Info("serving direct calls", "port", listener.Addr().(*net.TCPAddr).Port)
	return serveOn(ctx, a, listener)
}

func serveOn(ctx context.Context, a *assembled, listener net.Listener) error {
	answered := make(chan struct{}, 1) // records are due
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for range answered {
			a.checker.afterAnswer()
		}
	}()
	server := &http.Server{Handler: notBrowsers(newDoor(a, answered)), ReadTimeout: readTimeout,
		ErrorLog: slog.NewLogLogger(a.log.Handler(), slog.LevelWarn)}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTimeout)
	defer cancel()
	err := server.Shutdown(drain)
	close(answered)
	<-ended
	a.end()
	return err
}

// newDoor returns the handler. It signals after each answer, without waiting.
func newDoor(a *assembled, answered chan<- struct{}) http.Handler {
	handler := a.handler()
	slots := make(chan struct{}, maxInFlight)
	answer := func(kind string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			select {
			case slots <- struct{}{}:
				defer func() { <-slots }()
			default:
				respond(w, http.StatusServiceUnavailable, failure{"the server is busy: retry"})
				return
			}
			status, body := answerOne(handler, w, r, kind)
			respond(w, status, body)
			select {
			case answered <- struct{}{}:
			default: // it is signalled already
			}
		}
	}
	mux := http.NewServeMux()
	mux.Handle("POST /check", answer("check"))
	mux.Handle("POST /settle", answer("settle"))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, r *http.Request) {
		if err := a.checker.healthy(r.Context()); err != nil {
			respond(w, http.StatusServiceUnavailable, failure{"Valkey does not answer"})
			return
		}
		respond(w, http.StatusOK, map[string]bool{"ok": true})
	})
	return mux
}

// failure is the body of an answer to a call that could not be decided.
type failure struct {
	Error string `json:"error"`
}

// answerOne answers the call in a request's body.
func answerOne(handler *direct.Handler, w http.ResponseWriter, r *http.Request, kind string) (status int,
	body any) {
	raw, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		return http.StatusRequestEntityTooLarge, failure{fmt.Sprintf("the body must have at most %d bytes",
			maxBody)}
	}
	answer, err := handler.Call(r.Context(), kind, raw)
	var mistake *direct.Mistake
	var conflict *direct.Conflict
	switch {
	case errors.As(err, &mistake):
		return http.StatusBadRequest, failure{err.Error()}
	case errors.As(err, &conflict):
		return http.StatusConflict, failure{err.Error()}
	case err != nil && store.Unavailable(err):
		return http.StatusServiceUnavailable, failure{"Valkey does not answer: retry"}
	case err != nil:
		return http.StatusInternalServerError, failure{"the call cannot be answered"}
	}
	return http.StatusOK, answer
}

func respond(w http.ResponseWriter, status int, body any) {
	text, _ := json.Marshal(body) // texts, numbers and maps always encode
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(append(text, '\n')) // fails only after the client disconnected
}

// notBrowsers refuses requests that a page in a browser makes: a page of any site can reach
// this machine's ports.
func notBrowsers(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Origin") != "" || r.Header.Get("Sec-Fetch-Site") != "" {
			respond(w, http.StatusForbidden, failure{"pages in a browser may not call this server"})
			return
		}
		next.ServeHTTP(w, r)
	})
}
