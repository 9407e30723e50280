package server_test

import (
	"context"
	"testing"

	"tidegate/functions/admin/server"
	"tidegate/internal/changes"
	"tidegate/internal/registry"
)

// A reader who goes away does not make pages say that the log or Valkey is unavailable.
func TestBannerOfGoneReader(t *testing.T) {
	warnings := server.Warnings(func(ctx context.Context) registry.LogStatus {
		if ctx.Err() != nil {
			return registry.LogStatus{Away: 256, Problem: changes.ErrView}
		}
		return registry.LogStatus{Newest: 7, Lowest: 7}
	})
	gone, leave := context.WithCancel(t.Context())
	leave()
	for range 2 {
		if texts := warnings(gone); len(texts) > 0 {
			t.Errorf("got %q, want none: the log and Valkey are as they should be", texts)
		}
	}
}
