package main

import (
	"context"
	"strconv"

	"github.com/valkey-io/valkey-go"
)

// scripted is a check by one script that answers with integers.
func scripted(client valkey.Client, lua string, allowed func([]int64) bool,
	arguments func(subject string) (keys, arguments []string)) *check {
	script := valkey.NewLuaScript(lua)
	return &check{
		take: func(ctx context.Context, subject string) (bool, error) {
			keys, values := arguments(subject)
			reply, err := integers(script.Exec(ctx, client, keys, values))
			return err == nil && allowed(reply), err
		},
		verdict: func(leaves []string) bool {
			values := make([]int64, len(leaves))
			for i, leaf := range leaves {
				values[i] = number(leaf)
			}
			return allowed(values)
		},
	}
}

// integers returns a reply of one or several integers as a slice.
func integers(result valkey.ValkeyResult) ([]int64, error) {
	message, err := result.ToMessage()
	if err != nil {
		return nil, err
	}
	if message.IsArray() {
		return message.AsIntSlice()
	}
	value, err := message.AsInt64()
	return []int64{value}, err
}

func decimals(values ...int64) []string {
	texts := make([]string, len(values))
	for i, v := range values {
		texts[i] = strconv.FormatInt(v, 10)
	}
	return texts
}
