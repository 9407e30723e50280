package store

import (
	"context"
	"fmt"

	"github.com/valkey-io/valkey-go"
)

// Version names the software that answers, and its version. HELLO gives it where INFO is
// not to be had.
func Version(ctx context.Context, client valkey.Client) (string, error) {
	said, err := client.Do(ctx, client.B().Hello().Build()).AsMap()
	if err != nil {
		return "", fmt.Errorf("ask for the version: %w", err)
	}
	server, version := said["server"], said["version"]
	name, err := server.ToString()
	if err != nil {
		return "", fmt.Errorf("ask for the version: %w", err)
	}
	number, err := version.ToString()
	if err != nil {
		return "", fmt.Errorf("ask for the version: %w", err)
	}
	return name + " " + number, nil
}
