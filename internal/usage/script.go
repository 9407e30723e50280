package usage

import (
	_ "embed" // the scripts

	"tidegate/internal/lua"
)

//go:embed record.lua
var recordText string

//go:embed denials.lua
var denialsText string

var (
	recordScript  = lua.New(func() string { return recordText })
	denialsScript = lua.New(func() string { return denialsText })
)
