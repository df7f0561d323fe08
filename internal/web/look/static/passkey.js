// Passkeys: a button answers a challenge of the server and sends the form that it stands
// in. Without this script, or in a browser that knows no passkeys, the buttons stay
// hidden and codes are used instead.
(() => {
  "use strict";
  if (!window.PublicKeyCredential || !navigator.credentials) return;

  const bytes = (text) => Uint8Array.from(atob(text.replace(/-/g, "+").replace(/_/g, "/")), (c) => c.charCodeAt(0));
  const text = (buffer) => btoa(String.fromCharCode(...new Uint8Array(buffer))).replace(/\+/g, "-").replace(/\//g, "_").replace(/=+$/, "");
  const known = (list) => (list || []).map((it) => ({ ...it, id: bytes(it.id) }));

  const create = async (options) => {
    options.challenge = bytes(options.challenge);
    options.user.id = bytes(options.user.id);
    options.excludeCredentials = known(options.excludeCredentials);
    const made = await navigator.credentials.create({ publicKey: options });
    return {
      id: made.id, rawId: text(made.rawId), type: made.type, clientExtensionResults: made.getClientExtensionResults(),
      response: {
        clientDataJSON: text(made.response.clientDataJSON), attestationObject: text(made.response.attestationObject),
        transports: made.response.getTransports ? made.response.getTransports() : [],
      },
    };
  };

  const use = async (options) => {
    options.challenge = bytes(options.challenge);
    options.allowCredentials = known(options.allowCredentials);
    const shown = await navigator.credentials.get({ publicKey: options });
    const answer = shown.response;
    return {
      id: shown.id, rawId: text(shown.rawId), type: shown.type, clientExtensionResults: shown.getClientExtensionResults(),
      response: {
        clientDataJSON: text(answer.clientDataJSON), authenticatorData: text(answer.authenticatorData), signature: text(answer.signature),
        userHandle: answer.userHandle ? text(answer.userHandle) : undefined,
      },
    };
  };

  for (const missing of document.querySelectorAll("[data-passkey-missing]")) missing.hidden = true;
  for (const part of document.querySelectorAll("[data-passkey-create], [data-passkey-use]")) {
    const form = part.closest("form");
    const button = part.querySelector("[data-passkey-button]");
    const trouble = part.querySelector("[data-passkey-trouble]");
    for (const it of [part, ...part.querySelectorAll("[data-passkey-ready]")]) it.hidden = false;
    button.addEventListener("click", async () => {
      const code = form.querySelector("[name=code]");
      if (code) code.required = false;
      const filled = form.reportValidity();
      if (code) code.required = true;
      if (!filled) return;
      trouble.hidden = true;
      button.disabled = true;
      try {
        const { passkeyCreate, passkeyUse } = part.dataset;
        const answer = passkeyCreate ? await create(JSON.parse(passkeyCreate)) : await use(JSON.parse(passkeyUse));
        part.querySelector("[data-passkey-answer]").value = JSON.stringify(answer);
        if (code) code.required = false;
        form.requestSubmit();
      } catch {
        trouble.hidden = false;
        button.disabled = false;
      }
    });
  }
})();
