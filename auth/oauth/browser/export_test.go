package browser

var Command = browserCommand
