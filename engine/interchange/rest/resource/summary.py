"""The elements that HL7 marks as those of a summary, by type: of R4 and of STU3 together, as no name means two things.

Source: `isSummary` in the StructureDefinitions of FHIR R4 (4.0.1) and STU3 (3.0.1), for the elements at the top of the
types that are kept here. What is required, or changes the meaning of the rest, is in every summary too.
"""

from collections.abc import Mapping
from typing import Final

SUMMARY: Final[Mapping[str, str]] = {
    "Account": "identifier status type name subject servicePeriod coverage owner description period active",
    "ActivityDefinition": (
        "url identifier version name title status experimental date publisher contact description useContext "
        "jurisdiction observationRequirement observationResultRequirement"
    ),
    "AllergyIntolerance": (
        "identifier clinicalStatus verificationStatus type category criticality code patient asserter"
    ),
    "Binary": "contentType securityContext",
    "CarePlan": (
        "identifier instantiatesCanonical instantiatesUri basedOn replaces partOf status intent category "
        "title description subject encounter period created author addresses definition context"
    ),
    "Condition": (
        "identifier clinicalStatus verificationStatus code bodySite subject encounter onset recordedDate "
        "recorder asserter context assertedDate"
    ),
    "Coverage": (
        "identifier status type policyHolder subscriber subscriberId beneficiary dependent period payor order "
        "network sequence"
    ),
    "DiagnosticReport": (
        "identifier status category code subject encounter effective issued performer resultsInterpreter "
        "media context image"
    ),
    "DocumentReference": (
        "masterIdentifier identifier status docStatus type category subject date author relatesTo description "
        "securityLabel content context class created indexed authenticator custodian"
    ),
    "Encounter": (
        "identifier status class type serviceType subject episodeOfCare participant appointment reasonCode "
        "reasonReference diagnosis reason"
    ),
    "FamilyMemberHistory": (
        "identifier instantiatesCanonical instantiatesUri status dataAbsentReason patient date name "
        "relationship sex age estimatedAge deceased reasonCode reasonReference definition notDone "
        "notDoneReason gender"
    ),
    "Goal": (
        "lifecycleStatus achievementStatus category priority description subject start statusDate expressedBy status"
    ),
    "Group": "identifier active type actual code name quantity managingEntity",
    "Immunization": (
        "status vaccineCode patient occurrence primarySource performer note isSubpotent notGiven practitioner"
    ),
    "Location": "identifier status operationalStatus name description mode type physicalType managingOrganization",
    "MedicationRequest": (
        "status intent priority doNotPerform reported medication subject authoredOn requester performerType "
        "instantiatesCanonical instantiatesUri basedOn groupIdentifier definition"
    ),
    "MedicationStatement": (
        "identifier basedOn partOf status category medication subject context effective dateAsserted taken"
    ),
    "Observation": (
        "identifier basedOn partOf status code subject focus encounter effective issued performer value "
        "hasMember derivedFrom component related"
    ),
    "Organization": "identifier active type name partOf",
    "Patient": "identifier active name telecom gender birthDate deceased address managingOrganization link animal",
    "Practitioner": "identifier active name telecom address gender birthDate",
    "PractitionerRole": "identifier active period practitioner organization code specialty location telecom",
    "Procedure": (
        "identifier instantiatesCanonical instantiatesUri basedOn partOf status statusReason category code "
        "subject encounter performed recorder asserter performer location reasonCode reasonReference bodySite "
        "outcome definition notDone notDoneReason context"
    ),
    "Provenance": "target recorded",
    "Questionnaire": (
        "url identifier version name title status experimental subjectType date publisher contact description "
        "useContext jurisdiction effectivePeriod code"
    ),
    "QuestionnaireResponse": (
        "identifier basedOn partOf questionnaire status subject encounter authored author source parent context"
    ),
    "RelatedPerson": "identifier active patient relationship name telecom gender birthDate address",
    "RequestGroup": (
        "identifier instantiatesCanonical instantiatesUri basedOn replaces groupIdentifier status intent priority code "
        "definition"
    ),
    "ServiceRequest": (
        "identifier instantiatesCanonical instantiatesUri basedOn replaces requisition status intent category "
        "priority doNotPerform code orderDetail quantity subject encounter occurrence asNeeded authoredOn "
        "requester performerType performer locationCode locationReference reasonCode reasonReference specimen "
        "bodySite patientInstruction definition context"
    ),
    "Specimen": "identifier accessionIdentifier status type subject receivedTime",
    "Subscription": "status contact end reason criteria error channel tag",
}
