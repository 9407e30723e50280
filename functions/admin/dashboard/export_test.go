package dashboard

// Bounds that tests in package dashboard_test exceed.
const (
	KeysPerPage    = keysPerPage
	CallersPerScan = callersPerScan
)
