package dashboard

// KeysPerPage is a bound that tests in package dashboard_test exceed.
const KeysPerPage = keysPerPage
