//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"tidegate/local/lambda"
	"tidegate/local/remote"
)

// drainTimeout is the time for a running invocation when the container stops.
const drainTimeout = 8 * time.Second

// functionMemory is the containers' memory in MB, as in a deployment.
const functionMemory = 512

// serveFunction runs one environment of a function in its own container.
func serveFunction(ctx context.Context, args []string, io stdio) error {
	c := lambda.Config{Concurrency: 1, Warm: 1, Memory: functionMemory, Log: io.out}
	var listen, envFile string
	f := partFlags("function", io)
	f.StringVar(&c.Name, "name", "check", "`name` of the function")
	f.StringVar(&c.Binary, "binary", "/bootstrap", "`path` of the built function")
	f.StringVar(&listen, "listen", ":9000", "`address` to take invocations at")
	f.StringVar(&envFile, "env-file", "", "`path` of a file with more variables for the function")
	f.DurationVar(&c.Timeout, "timeout", checkTimeout, "of one invocation")
	f.BoolVar(&c.NoFreeze, "no-freeze", false, "let the function run between calls, where Lambda freezes it")
	if err := f.Parse(args); err != nil {
		return err
	}
	var err error
	if c.Env, err = functionEnv(io.environ(), envFile); err != nil {
		return err
	}
	listener, err := net.Listen("tcp", listen)
	if err != nil {
		return fmt.Errorf("-listen: %w", err)
	}
	function, err := lambda.Start(c)
	if err != nil {
		_ = listener.Close()
		return err
	}
	defer function.Close()
	_, _ = fmt.Fprintln(io.out, "takes invocations at", listener.Addr())
	return serveEnvironment(ctx, listener, function)
}

// functionEnv returns the container's environment variables and those of the file. The
// container's replace the file's.
func functionEnv(environ []string, file string) (map[string]string, error) {
	env := map[string]string{}
	if file != "" {
		var err error
		if env, err = readEnv(file); err != nil {
			return nil, err
		}
	}
	for _, variable := range environ {
		name, value, _ := strings.Cut(variable, "=")
		if name != "PATH" && name != "HOME" && name != "HOSTNAME" {
			env[name] = value
		}
	}
	return env, nil
}

// serveEnvironment runs invocations until ctx ends, and completes the last one.
func serveEnvironment(ctx context.Context, listener net.Listener, function *lambda.Function) error {
	environment := remote.NewServer(function)
	server := &http.Server{Handler: environment, ReadHeaderTimeout: headerTimeout}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	select {
	case err := <-failed:
		return fmt.Errorf("take invocations: %w", err)
	case <-ctx.Done():
	}
	environment.Drain()
	stop, cancel := context.WithTimeout(context.Background(), drainTimeout)
	defer cancel()
	if err := server.Shutdown(stop); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("stop taking invocations: %w", err)
	}
	return nil
}
