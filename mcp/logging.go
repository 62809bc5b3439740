package mcp

import (
	"encoding/json"
	"slices"
)

// LoggingLevel is the severity of a log message, as syslog has them (RFC 5424). Logging by protocol
// is deprecated by 2026-07-28; servers on stdio write to stderr, others use OpenTelemetry.
type LoggingLevel string

// The levels, from the least severe to the most.
const (
	LevelDebug     LoggingLevel = "debug"
	LevelInfo      LoggingLevel = "info"
	LevelNotice    LoggingLevel = "notice"
	LevelWarning   LoggingLevel = "warning"
	LevelError     LoggingLevel = "error"
	LevelCritical  LoggingLevel = "critical"
	LevelAlert     LoggingLevel = "alert"
	LevelEmergency LoggingLevel = "emergency"
)

// LoggingLevels returns all levels, the least severe first. The slice belongs to the caller.
func LoggingLevels() []LoggingLevel {
	return []LoggingLevel{
		LevelDebug, LevelInfo, LevelNotice, LevelWarning,
		LevelError, LevelCritical, LevelAlert, LevelEmergency,
	}
}

// Known reports whether l is one of [LoggingLevels].
func (l LoggingLevel) Known() bool {
	return slices.Contains(LoggingLevels(), l)
}

// Enables reports whether a message of the given level is to be sent when l is the least level asked
// for. An unknown level, as either of the two, enables nothing.
func (l LoggingLevel) Enables(message LoggingLevel) bool {
	levels := LoggingLevels()
	least := slices.Index(levels, l)
	return least >= 0 && slices.Index(levels, message) >= least
}

// SetLevelParams are the parameters of logging/setLevel. Until 2025-11-25; since then a request asks
// for logs with [MetaLogLevel].
type SetLevelParams struct {
	ParamsBase

	// Level is the least severe level to send.
	Level LoggingLevel `json:"level"`
}

// LoggingMessageParams are the parameters of notifications/message.
type LoggingMessageParams struct {
	ParamsBase

	Level  LoggingLevel `json:"level"`
	Logger string       `json:"logger,omitempty"` // the name of the logger
	// Data is any JSON value; nil is encoded as null.
	Data json.RawMessage `json:"data"`
}
