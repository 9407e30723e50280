package store

import (
	"context"
	"fmt"

	"github.com/valkey-io/valkey-go"
)

// Version returns the server's name and version. It asks with HELLO, which works where
// INFO is not allowed.
func Version(ctx context.Context, client valkey.Client) (string, error) {
	reply, err := client.Do(ctx, client.B().Hello().Build()).AsMap()
	if err != nil {
		return "", fmt.Errorf("ask for the version: %w", err)
	}
	server, version := reply["server"], reply["version"]
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
