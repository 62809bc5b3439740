package oauth_test

const childVariable = "PARLEY_OAUTH_TEST_CHILD"

func refreshOnce(string) int { return 1 }
