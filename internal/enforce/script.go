package enforce

import (
	_ "embed" // the scripts

	"tidegate/internal/limiter"
	"tidegate/internal/lua"
)

var (
	//go:embed lua/find.lua
	findLua string
	//go:embed lua/wide.lua
	wideLua string
	//go:embed lua/current.lua
	currentLua string
	//go:embed lua/lease.lua
	leaseLua string

	checkScript = lua.New(func() string { return limiter.Script(findLua, checkTail) })
	wideScript  = lua.New(func() string { return limiter.StepFunction() + findLua + wideLua })
	stepScript  = lua.New(func() string { return limiter.Script(currentLua, "return reply") })
	leaseScript = lua.New(func() string { return limiter.StepFunction() + currentLua + leaseLua })
)

const checkTail = "if public then return 'D' .. public .. reply end\nreturn 'K' .. reply"
