//go:build unix

package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"time"
)

const healthTimeout = 5 * time.Second

// health returns the exit status: 0 if the URL answers 200, 1 if not, 2 for bad arguments.
func health(ctx context.Context, args []string, errOut io.Writer) int {
	if len(args) != 1 {
		_, _ = fmt.Fprintln(errOut, "health: pass one URL")
		return 2
	}
	if err := healthy(ctx, args[0]); err != nil {
		_, _ = fmt.Fprintf(errOut, "health: %v\n", err)
		return 1
	}
	return 0
}

func healthy(ctx context.Context, url string) error {
	ctx, cancel := context.WithTimeout(ctx, healthTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil) //nolint:gosec // the image names the URL
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request) //nolint:gosec // as above
	if err != nil {
		return err
	}
	_ = response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s", url, response.Status)
	}
	return nil
}
