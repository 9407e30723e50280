package verify

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"tidegate/internal/apikey"
	"tidegate/internal/objects"
	"tidegate/internal/registry"
	"tidegate/local/cli"
)

// verifyLog reads a whole log of changes and returns the exit status. It needs no Valkey.
func verifyLog(ctx context.Context, address string, getenv func(string) string, out, errOut io.Writer) int {
	pepper, err := apikey.NewPepper(getenv("KEY_PEPPER"))
	if err != nil {
		return cli.Refuse("verify", errors.New("KEY_PEPPER: set it to that of the functions"), errOut)
	}
	if err := objects.CheckAddress(address); err != nil {
		return cli.Refuse("verify", fmt.Errorf("-log %w", err), errOut)
	}
	newest, err := walk(ctx, address, pepper)
	if err != nil {
		_, _ = fmt.Fprintf(errOut, "verify: -log %s: %v\n", address, err)
		return somethingDiffers
	}
	_, _ = fmt.Fprintf(out, "%d changes: each is whole and has the hash of the one before\n", newest)
	return allAsExpected
}

func walk(ctx context.Context, address string, pepper apikey.Pepper) (newest uint64, err error) {
	if !strings.Contains(address, "://") {
		if _, err := os.Stat(address); err != nil {
			return 0, errors.New("the folder does not exist")
		}
	}
	log, err := objects.Open(address)
	if err != nil {
		return 0, err
	}
	return registry.New(nil, log, pepper).Log().Verify(ctx)
}
