// The outer frame of MCP Apps. It puts the page of a server into a sandbox without an origin, which inherits the content security policy
// of this document, and passes messages between it and the inspector.
const host = new URL(document.referrer).origin;
const inner = document.createElement("iframe");
inner.setAttribute("sandbox", "allow-scripts allow-forms");
inner.title = "App";
document.body.append(inner);

// The content security policy does not limit WebRTC, so the page has none: its first script removes the interfaces. Connections
// of frames that it creates are limited by the header Connection-Allowlist. A document in srcdoc needs no doctype.
const withoutWebRTC = "<script>for (const name of Object.getOwnPropertyNames(window)) if (/^(webkit)?RTC/.test(name)) delete window[name]; document.currentScript.remove()</script>";

addEventListener("message", (event) => {
  if (event.source === parent && event.origin === host) {
    if (event.data?.method === "ui/notifications/sandbox-resource-ready") inner.srcdoc = withoutWebRTC + event.data.params.html;
    else inner.contentWindow.postMessage(event.data, "*");
  } else if (event.source === inner.contentWindow && !String(event.data?.method).startsWith("ui/notifications/sandbox-")) {
    parent.postMessage(event.data, host);
  }
});

parent.postMessage({ jsonrpc: "2.0", method: "ui/notifications/sandbox-proxy-ready", params: {} }, host);
