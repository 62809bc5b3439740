package mcp

import (
	"encoding/json"
	"slices"
)

// LoggingLevel is the severity of a log message, as in RFC 5424 (syslog).
//
// Deprecated: 2026-07-28 deprecates logging by protocol (SEP-2577). The earliest removal is the first
// revision from 2027-07-28 on. Log to standard error or with OpenTelemetry instead.
type LoggingLevel string

// The levels, in order of increasing severity.
//
// Deprecated: 2026-07-28 deprecates logging by protocol (SEP-2577). The earliest removal is the first
// revision from 2027-07-28 on. Log to standard error or with OpenTelemetry instead.
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

// LoggingLevels returns all levels in the order of increasing severity. The caller owns the slice.
//
// Deprecated: 2026-07-28 deprecates logging by protocol (SEP-2577). The earliest removal is the first
// revision from 2027-07-28 on. Log to standard error or with OpenTelemetry instead.
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

// Enables reports whether a message must be sent if l is the minimum level. It returns false if
// either level is unknown.
func (l LoggingLevel) Enables(message LoggingLevel) bool {
	levels := LoggingLevels()
	minimum := slices.Index(levels, l)
	return minimum >= 0 && slices.Index(levels, message) >= minimum
}

// SetLevelParams are the parameters of logging/setLevel. Until 2025-11-25; later requests set
// [MetaLogLevel].
//
// Deprecated: 2026-07-28 deprecates logging by protocol (SEP-2577). The earliest removal is the first
// revision from 2027-07-28 on. Log to standard error or with OpenTelemetry instead.
type SetLevelParams struct {
	ParamsBase

	// Level is the minimum level of the messages to send.
	Level LoggingLevel `json:"level"`
}

// LoggingMessageParams are the parameters of notifications/message.
//
// Deprecated: 2026-07-28 deprecates logging by protocol (SEP-2577). The earliest removal is the first
// revision from 2027-07-28 on. Log to standard error or with OpenTelemetry instead.
type LoggingMessageParams struct {
	ParamsBase

	// Level is the severity of the message.
	Level LoggingLevel `json:"level"`
	// Logger is the name of the logger.
	Logger string `json:"logger,omitempty"`
	// Data is the message, any JSON value. Nil is encoded as null.
	Data json.RawMessage `json:"data"`
}
