// HAPI's generic client, R4 and STU3: the task from the first line of standard input, one line of JSON for each step.

import ca.uhn.fhir.context.FhirContext;
import ca.uhn.fhir.model.api.Include;
import ca.uhn.fhir.rest.api.MethodOutcome;
import ca.uhn.fhir.rest.client.api.IGenericClient;
import ca.uhn.fhir.rest.client.interceptor.BearerTokenAuthInterceptor;
import ca.uhn.fhir.util.BundleUtil;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.hl7.fhir.instance.model.api.IBaseBundle;
import org.hl7.fhir.instance.model.api.IBaseConformance;
import org.hl7.fhir.instance.model.api.IBaseParameters;
import org.hl7.fhir.instance.model.api.IBaseResource;
import org.hl7.fhir.instance.model.api.IIdType;

public class HapiClient {
    private static final ObjectMapper JSON = new ObjectMapper();

    private final FhirContext context;
    private final IGenericClient client;
    private final Class<? extends IBaseBundle> bundles;
    private final Class<? extends IBaseParameters> parameters;
    private final Class<? extends IBaseConformance> capabilities;

    interface Step {
        JsonNode take(JsonNode given) throws Exception;
    }

    public static void main(String[] arguments) throws Exception {
        var input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        JsonNode task = JSON.readTree(input.readLine());
        boolean failed = false;
        for (var step : new HapiClient(task).steps().entrySet()) {
            ObjectNode line = JSON.createObjectNode().put("step", step.getKey());
            try {
                line.set("saw", step.getValue().take(task.get("given").get(step.getKey())));
            } catch (Exception error) {
                failed = true;
                line.put("error", error.toString());
            }
            System.out.println(JSON.writeValueAsString(line));
        }
        System.exit(failed ? 1 : 0);
    }

    @SuppressWarnings("unchecked")
    HapiClient(JsonNode task) {
        context = task.get("version").asText().equals("R4") ? FhirContext.forR4() : FhirContext.forDstu3();
        client = context.newRestfulGenericClient(task.get("base").asText());
        client.registerInterceptor(new BearerTokenAuthInterceptor(task.get("token").asText()));
        bundles = (Class<? extends IBaseBundle>) type("Bundle");
        parameters = (Class<? extends IBaseParameters>) type("Parameters");
        capabilities = (Class<? extends IBaseConformance>) type("CapabilityStatement");
    }

    private Map<String, Step> steps() {
        Map<String, Step> steps = new LinkedHashMap<>();
        steps.put("discovery", given -> addresses(json(client.capabilities().ofType(capabilities).execute())));
        steps.put("create", given -> json(client.create().resource(resource(given, "resource")).execute()));
        steps.put("read", given -> json(client.read().resource("Patient").withId(id(given)).execute()));
        steps.put("update", given -> json(client.update().resource(resource(given, "resource")).execute()));
        steps.put("vread", given -> json(
            client.read().resource("Patient").withIdAndVersion(text(given, "id"), text(given, "version")).execute()));
        steps.put("history", given -> listed(client.history().onInstance(id(given)).returnBundle(bundles).execute()));
        steps.put("search", given -> listed(search("Patient", given.get("query"))));
        steps.put("page", given -> {
            ArrayNode pages = JSON.createArrayNode();
            IBaseBundle page = search("Patient", given.get("query"));
            pages.add(listed(page));
            while (BundleUtil.getLinkUrlOfType(context, page, "next") != null) {
                page = client.loadPage().next(page).execute();
                pages.add(listed(page));
            }
            return pages;
        });
        steps.put("_include", given -> listed(client.search().forResource("Observation")
            .whereMap(Map.of("patient", List.of(text(given, "patient"))))
            .include(new Include(text(given, "include"))).returnBundle(bundles).execute()));
        steps.put("conditional create", given -> {
            String query = "Patient?" + query(given.get("query"));
            IBaseResource one = resource(given, "resource");
            return twice(
                client.create().resource(one).conditionalByUrl(query).execute(),
                client.create().resource(one).conditionalByUrl(query).execute());
        });
        steps.put("conditional update", given -> {
            String query = "Patient?" + query(given.get("query"));
            return twice(
                client.update().resource(resource(given, "first")).conditionalByUrl(query).execute(),
                client.update().resource(resource(given, "second")).conditionalByUrl(query).execute());
        });
        steps.put("patch", given -> json(client.patch().withBody(given.get("patch").toString()).withId(id(given)).execute()));
        steps.put("delete", given -> {
            client.delete().resourceById(id(given)).execute();
            return JSON.nullNode();
        });
        steps.put("transaction", given -> json(
            client.transaction().withBundle((IBaseBundle) resource(given, "bundle")).execute()));
        steps.put("$everything", given -> listed(client.operation().onInstance(id(given)).named("$everything")
            .withNoParameters(parameters).useHttpGet().returnResourceType(bundles).execute()));
        steps.put("$merge", given -> json(client.operation().onType("Patient").named("$merge")
            .withParameters(parameters.cast(resource(given, "parameters"))).execute()));
        return steps;
    }

    private Class<? extends IBaseResource> type(String name) {
        return context.getResourceDefinition(name).getImplementingClass();
    }

    private IBaseBundle search(String type, JsonNode query) {
        Map<String, List<String>> wanted = new LinkedHashMap<>();
        query.fields().forEachRemaining(one -> wanted.put(one.getKey(), List.of(one.getValue().asText())));
        return client.search().forResource(type).whereMap(wanted).returnBundle(bundles).execute();
    }

    private static String query(JsonNode query) {
        List<String> parts = new ArrayList<>();
        query.fields().forEachRemaining(one -> parts.add(one.getKey() + "=" + one.getValue().asText()));
        return String.join("&", parts);
    }

    private static String text(JsonNode given, String name) {
        return given.get(name).asText();
    }

    private IIdType id(JsonNode given) {
        return context.getVersion().newIdType().setValue("Patient/" + text(given, "id"));
    }

    private IBaseResource resource(JsonNode given, String name) {
        return context.newJsonParser().parseResource(given.get(name).toString());
    }

    private JsonNode json(IBaseResource resource) throws Exception {
        return JSON.readTree(context.newJsonParser().encodeResourceToString(resource));
    }

    private JsonNode json(MethodOutcome outcome) throws Exception {
        return json(outcome.getResource());
    }

    private JsonNode twice(MethodOutcome first, MethodOutcome second) throws Exception {
        return JSON.createArrayNode().add(json(first)).add(json(second));
    }

    private JsonNode listed(IBaseBundle bundle) throws Exception {
        ArrayNode found = JSON.createArrayNode();
        for (IBaseResource one : BundleUtil.toListOfResources(context, bundle)) found.add(json(one));
        return found;
    }

    /** The addresses of the sign-in, from the extension oauth-uris of a CapabilityStatement. */
    private static JsonNode addresses(JsonNode statement) {
        ObjectNode found = JSON.createObjectNode();
        for (JsonNode one : statement.at("/rest/0/security/extension/0/extension")) {
            found.set(one.get("url").asText(), one.get("valueUri"));
        }
        return found;
    }
}
