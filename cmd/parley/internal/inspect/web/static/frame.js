// The outer frame of MCP Apps. It puts the page of a server into a sandbox without an origin, which inherits the
// content security policy of this document, and passes messages between it and the inspector.
const host = new URL(document.referrer).origin;
const inner = document.createElement("iframe");
inner.setAttribute("sandbox", "allow-scripts allow-forms");
inner.title = "App";
document.body.append(inner);

// The first script of the page. The content security policy does not limit WebRTC, so the script removes its
// interfaces. Connections of frames that the page creates are limited by the header Connection-Allowlist. A link to a
// fragment would leave the page, because the base URL of a document in srcdoc is that of this document. Such a document
// needs no doctype.
const first = `<script>
for (const name of Object.getOwnPropertyNames(window)) if (/^(webkit)?RTC/.test(name)) delete window[name];
addEventListener("click", (event) => {
  const fragment = event.composedPath()[0].closest?.("a[href]")?.getAttribute("href");
  if (!fragment?.startsWith("#") || event.defaultPrevented) return;
  event.preventDefault();
  location.hash = fragment;
});
document.currentScript.remove();
</script>`;

let isLoaded = false;
addEventListener("message", ({ source, origin, data }) => {
  const isOfSandbox = String(data?.method).startsWith("ui/notifications/sandbox-");
  if (source === parent && origin === host) {
    if (!isOfSandbox) inner.contentWindow.postMessage(data, "*");
    else if (!isLoaded && data.method === "ui/notifications/sandbox-resource-ready") {
      isLoaded = true;
      inner.srcdoc = first + data.params.html;
    }
  } else if (source === inner.contentWindow && !isOfSandbox) parent.postMessage(data, host);
});

parent.postMessage({ jsonrpc: "2.0", method: "ui/notifications/sandbox-proxy-ready", params: {} }, host);
