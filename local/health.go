//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"tidegate/local/remote"
)

// askTimeout is the timeout of requests from within a container.
const askTimeout = 5 * time.Second

// askHealth is a health check for images without a shell.
func askHealth(ctx context.Context, args []string, _ stdio) error {
	if len(args) != 1 {
		return errors.New("one URL is wanted")
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	return remote.Healthy(ctx, http.DefaultClient, args[0])
}

const toxiproxyURL = "http://127.0.0.1:8474"

// askToxiproxy sends a request to a proxy whose port is open only within its container.
func askToxiproxy(ctx context.Context, args []string, stdio stdio) error {
	if len(args) < 2 || len(args) > 3 {
		return errors.New("METHOD PATH [JSON] are wanted, such as GET /proxies")
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	body := strings.NewReader(strings.Join(args[2:], ""))
	r, err := http.NewRequestWithContext(ctx, args[0], toxiproxyURL+args[1], body) //nolint:gosec // of this container alone
	if err != nil {
		return fmt.Errorf("ask toxiproxy: %w", err)
	}
	response, err := http.DefaultClient.Do(r) //nolint:gosec // of this container alone
	if err != nil {
		return fmt.Errorf("ask toxiproxy: %w", err)
	}
	defer func() { _ = response.Body.Close() }()
	if _, err := io.Copy(stdio.out, response.Body); err != nil {
		return fmt.Errorf("ask toxiproxy: %w", err)
	}
	if response.StatusCode >= http.StatusBadRequest {
		return fmt.Errorf("toxiproxy answers %s", response.Status)
	}
	return nil
}
