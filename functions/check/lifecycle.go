package main

import (
	"bufio"
	"bytes"
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

// beforeNextEvent makes aws-lambda-go call do before it requests the next event from the
// Runtime API at address. The client has its answer then; Lambda freezes the environment
// once the request is made.
//
// aws-lambda-go offers nothing for this. Its client dials with a clone of
// http.DefaultTransport, so this must run before lambda.Start.
func beforeNextEvent(address string, do func()) {
	transport := http.DefaultTransport.(*http.Transport)
	dial := transport.DialContext
	transport.DialContext = func(ctx context.Context, network, to string) (net.Conn, error) {
		conn, err := dial(ctx, network, to)
		if err != nil || to != address {
			return conn, err
		}
		return &runtimeConn{Conn: conn, beforeNext: do}, nil
	}
}

// runtimeConn is a connection to the Runtime API.
type runtimeConn struct {
	net.Conn

	beforeNext func()
}

var nextEvent = []byte("GET /2018-06-01/runtime/invocation/next ")

func (c *runtimeConn) Write(b []byte) (int, error) {
	if bytes.HasPrefix(b, nextEvent) {
		c.beforeNext()
	}
	return c.Conn.Write(b)
}

const registerTimeout = time.Second

// extension is a registered Lambda extension without events. Lambda sends SIGTERM only to
// functions with an extension.
//
// The runtime library's own option registers after all other start-up work, with its own
// HTTP client, and costs a third of the start. This registration runs in parallel.
type extension struct{ registered chan error }

// registerExtension starts the registration. It must finish before the first event is
// requested.
func registerExtension() *extension {
	e := &extension{make(chan error, 1)}
	go func() { e.registered <- register(os.Getenv("AWS_LAMBDA_RUNTIME_API")) }()
	return e
}

// onShutdown runs do on SIGTERM, then exits. It waits for the registration and returns
// its error. After an error, no SIGTERM comes.
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

// register keeps its connection open: Lambda answers the second request (event/next) when
// the environment ends.
func register(api string) error {
	conn, err := (&net.Dialer{Timeout: registerTimeout}).DialContext(context.Background(), "tcp", api)
	if err != nil {
		return fmt.Errorf("%w: %w", errExtension, err)
	}
	_ = conn.SetDeadline(time.Now().Add(registerTimeout)) // cannot fail on an open connection
	// A write error shows up again when the response is read.
	_, _ = fmt.Fprintf(conn,
		"POST /2020-01-01/extension/register HTTP/1.1\r\nHost: %s\r\nLambda-Extension-Name: tidegate\r\n"+
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
