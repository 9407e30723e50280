package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"
)

const registerTimeout = time.Second

// extension is the registration of an extension that listens to nothing: Lambda sends
// SIGTERM to functions that have one, and to no others.
//
// The runtime library's own option does the same after all else, with an HTTP client of
// its own: a third of what a start takes. This one goes on while the function starts.
type extension struct{ registered chan error }

// registerExtension begins. It must be done before the first event is asked for.
func registerExtension() *extension {
	e := &extension{make(chan error, 1)}
	go func() { e.registered <- register(os.Getenv("AWS_LAMBDA_RUNTIME_API")) }()
	return e
}

// onShutdown ends the process after do when the environment ends. It waits for the
// registration, whose error means that the end comes unannounced.
func (e *extension) onShutdown(do func()) error {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM)
	go func() {
		<-signals
		do()
		os.Exit(0)
	}()
	return <-e.registered
}

var errExtension = errors.New("no extension could be registered")

// register leaves its connection open: the second request, which says that the extension
// has started, is answered when the environment ends.
func register(api string) error {
	conn, err := (&net.Dialer{Timeout: registerTimeout}).DialContext(context.Background(), "tcp", api)
	if err != nil {
		return fmt.Errorf("%w: %w", errExtension, err)
	}
	_ = conn.SetDeadline(time.Now().Add(registerTimeout)) // cannot fail on an open connection
	_, _ = fmt.Fprintf(conn,
		"POST /2020-01-01/extension/register HTTP/1.1\r\nHost: %s\r\nLambda-Extension-Name: tidegate\r\n"+
			// an error comes again when the answer is read
			"Content-Type: application/json\r\nContent-Length: 13\r\n\r\n{\"events\":[]}", api)
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		_ = conn.Close()
		return fmt.Errorf("%w: %w", errExtension, err)
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		_ = conn.Close()
		return fmt.Errorf("%w: %s", errExtension, response.Status)
	}
	_, err = fmt.Fprintf(conn, "GET /2020-01-01/extension/event/next HTTP/1.1\r\nHost: "+
		"%s\r\nLambda-Extension-Identifier: %s\r\n\r\n",
		api, response.Header.Get("Lambda-Extension-Identifier"))
	if err != nil {
		return fmt.Errorf("%w: %w", errExtension, err)
	}
	_ = conn.SetDeadline(time.Time{})
	go func() { _, _ = io.Copy(io.Discard, conn) }() // holds the connection
	return nil
}
