"use strict";
// Draws the OpenAPI document. Text only ever becomes text: nothing in it can become markup.

function make(tag, text, ...children) {
  const element = document.createElement(tag);
  if (text) element.textContent = text;
  element.append(...children);
  return element;
}

function named(schema) {
  if (!schema) return "nothing";
  if (schema.$ref) return schema.$ref.split("/").pop();
  if (schema.anyOf) return schema.anyOf.map(named).join(" or ");
  if (schema.oneOf) return schema.oneOf.map(named).join(" or ");
  if (schema.type === "array") return "list of " + named(schema.items);
  if (schema.enum) return schema.enum.map((value) => JSON.stringify(value)).join(" | ");
  return schema.type || "anything";
}

function content(part) {
  const [media, body] = Object.entries(part.content || {})[0] || ["", null];
  return body ? `${named(body.schema)} (${media})` : "";
}

function rows(pairs) {
  const table = make("table");
  for (const cells of pairs) table.append(make("tr", "", ...cells.map((cell) => make("td", cell))));
  return table;
}

function operation(path, method, said) {
  const head = make("summary", "", make("span", method.toUpperCase()), make("code", path), ` ${said.summary}`);
  head.firstChild.className = "method";
  const box = make("details", "", head);
  if (said.description) box.append(make("p", said.description));
  if (said.security && !said.security.length) {
    box.append(make("p", "Open: needs no token."));
    box.lastChild.className = "open";
  }
  if (said.parameters.length) {
    const told = (one) => [one.name, one.in, named(one.schema), one.required ? "required" : "", one.description || ""];
    box.append(make("h4", "Parameters"), rows(said.parameters.map(told)));
  }
  if (said.requestBody) box.append(make("h4", "Body"), make("p", content(said.requestBody)));
  const answers = Object.entries(said.responses).map(([status, one]) => [status, content(one), one.description]);
  box.append(make("h4", "Answers"), rows(answers));
  return box;
}

async function draw() {
  const reply = await fetch("openapi.json");
  const about = document.getElementById("about");
  if (!reply.ok) {
    about.textContent = `The document cannot be read (${reply.status}): sign in first.`;
    return;
  }
  const said = await reply.json();
  about.textContent = `${said.info.description} Version ${said.info.version}.`;
  const sections = new Map();
  for (const [path, methods] of Object.entries(said.paths))
    for (const [method, one] of Object.entries(methods)) {
      const tag = one.tags[0];
      if (!sections.has(tag)) sections.set(tag, make("section", "", make("h2", tag)));
      sections.get(tag).append(operation(path, method, one));
    }
  document.getElementById("routes").append(...sections.values());
  const values = document.getElementById("values");
  for (const [name, schema] of Object.entries(said.components.schemas))
    values.append(make("details", "", make("summary", name), make("pre", JSON.stringify(schema, null, 2))));
}

draw();
